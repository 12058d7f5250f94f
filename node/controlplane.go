package node

import (
	"context"
	"time"

	"github.com/wasmnode/wasmnode/structs"
)

// ControlPlane decides what runs on this node: the embedded one
// (package standalone), or real Nomad servers. All methods may be called concurrently.
type ControlPlane interface {
	// Register makes the node known, or its changes. It returns how long the
	// registration lasts without a heartbeat; 0: for ever.
	Register(ctx context.Context, n *structs.Node) (ttl time.Duration, err error)
	// Heartbeat reports that the node is alive.
	Heartbeat(ctx context.Context, nodeID string) (ttl time.Duration, err error)
	// Allocations returns every allocation that the node is to know, running or
	// to be stopped, once their index is above minIndex or ctx is done. One that
	// is missing from the answer is to be destroyed.
	Allocations(ctx context.Context, nodeID string, minIndex uint64) (allocs []*structs.Allocation, index uint64, err error)
	// UpdateAllocations reports what the node's allocations have become. It is
	// idempotent: what was reported twice counts once.
	UpdateAllocations(ctx context.Context, nodeID string, states []*structs.AllocationState) error
}
