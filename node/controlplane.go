package node

import (
	"context"
	"time"

	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/runners/template"
	"github.com/wasmnode/wasmnode/structs"
)

// ControlPlane decides what runs on this node: the embedded one
// (package standalone), or real Nomad servers. All methods may be called concurrently.
type ControlPlane interface {
	// NodeID is the ID under which the control plane knows a node of that name; empty: it
	// knows none. A node asks that has lost its own.
	NodeID(ctx context.Context, name string) (string, error)
	// Adopt compares what the node knows with what the control plane does, before the node
	// asks for allocations, and rebuilds what the control plane has lost. It starts and
	// stops nothing.
	Adopt(ctx context.Context, n *structs.Node, known *structs.NodeKnowledge) (*structs.Adoption, error)
	// Claim has an allocation adopted that waits for a decision, because a person says so.
	// The node's version of the job becomes the current one.
	Claim(ctx context.Context, nodeID string, a structs.KnownAllocation) error
	// Register makes the node known, or its changes. It returns how long the
	// registration lasts without a heartbeat; 0: for ever.
	Register(ctx context.Context, n *structs.Node) (ttl time.Duration, err error)
	// Heartbeat reports that the node is alive.
	Heartbeat(ctx context.Context, nodeID string) (ttl time.Duration, err error)
	// Allocations returns what changed of the allocations that the node is to know, running
	// or to be stopped, above minIndex, once something did or ctx is done; all of them
	// where minIndex is 0 or too long ago. One that has ended and is gone is to be
	// destroyed. One that has not ended was never let go of: it is the control plane that
	// has lost it, and the node keeps it.
	Allocations(ctx context.Context, nodeID string, minIndex uint64) (*structs.Assignments, error)
	// UpdateAllocations reports what the node's allocations have become. It is
	// idempotent: what was reported twice counts once.
	UpdateAllocations(ctx context.Context, nodeID string, states []*structs.AllocationState) error
	ServiceRegistry
	VolumeRegistry
	// Variables are read by templates of the node's tasks.
	template.Variables
	// Identities are those of the node's tasks.
	task.Identities
}

// ServiceRegistry has the services of allocations found by others. Each of its methods is
// idempotent.
type ServiceRegistry interface {
	// RegisteredServices are those of the node's allocations: what an earlier agent has left.
	RegisteredServices(ctx context.Context, nodeID string) ([]*structs.ServiceRegistration, error)
	// RegisterServices registers services of the node's allocations, or changes them. One of
	// an allocation that is unknown, of another node or has ended is left out.
	RegisterServices(ctx context.Context, nodeID string, services []*structs.ServiceRegistration) error
	// DeregisterServices removes registrations by ID. One that is not there is left out.
	DeregisterServices(ctx context.Context, nodeID string, ids []string) error
	// FindServices returns the registrations of a service, whatever node they are on, by their
	// IDs; of no name: of all services of the namespace. It is asked once a second for each
	// service that a template of a task has.
	FindServices(ctx context.Context, namespace, name string) ([]*structs.ServiceRegistration, error)
}

// VolumeRegistry knows the dynamic host volumes. Each of its methods is idempotent.
type VolumeRegistry interface {
	// NodeVolumes are the volumes that the node is to have, or that it was about to remove.
	NodeVolumes(ctx context.Context, nodeID string) ([]structs.NodeVolume, error)
	// VolumeMade reports where a volume is, after it was made again. One that is unknown is
	// left out.
	VolumeMade(ctx context.Context, nodeID, id string, made structs.MadeVolume) error
	// VolumeRemoved reports that nothing is left of a volume that was to be removed.
	VolumeRemoved(ctx context.Context, nodeID, id string) error
}
