package clientrpc

import (
	"context"
	"errors"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// allCalls are the requests that are answered, by their methods.
func (s *server) allCalls() map[string]call {
	return map[string]call{
		"Allocations.Restart":           calling(s.restart),
		"Allocations.Signal":            calling(s.signal),
		"Allocations.Stats":             calling(s.usage),
		"Allocations.Checks":            calling(s.checks),
		"Allocations.GarbageCollect":    calling(s.collect),
		"Allocations.GarbageCollectAll": calling(s.collectAll),
		"FileSystem.List":               calling(s.listFiles),
		"FileSystem.Stat":               calling(s.statFile),
		"ClientStats.Stats":             calling(s.hostStats),
		"NodeMeta.Apply":                calling(s.applyMetadata),
		"NodeMeta.Read":                 calling(s.readMetadata),
		"NodeIdentity.Get":              calling(s.identity),
		"NodeIdentity.Renew":            calling(s.renewIdentity),
		"Agent.Host":                    calling(s.host),
		"Agent.Profile":                 calling(s.profile),
		"HostVolume.Create":             calling(s.createVolume),
		"HostVolume.Register":           calling(s.registerVolume),
		"HostVolume.Delete":             calling(s.deleteVolume),
	}
}

// done is the reply to what has no other.
type done struct{ Index uint64 }

// allocation finds an allocation of this node.
func (s *server) allocation(id string) (*structs.Allocation, error) {
	a, err := s.Node.Allocation(id)
	if errors.Is(err, errdefs.NotFound) {
		return nil, unknownAllocation(id)
	}
	return a, err
}

type restartArgs struct {
	AllocID, TaskName string
	AllTasks          bool
}

func (s *server) restart(ctx context.Context, args *restartArgs) (any, error) {
	if _, err := s.allocation(args.AllocID); err != nil {
		return nil, err
	}
	if args.AllTasks && args.TaskName != "" {
		return nil, invalid("can't restart all tasks and task %q: name a task or none", args.TaskName)
	}
	return done{}, s.Node.RestartAllocation(ctx, args.AllocID, args.TaskName, args.AllTasks)
}

type signalArgs struct{ AllocID, Task, Signal string }

func (s *server) signal(ctx context.Context, args *signalArgs) (any, error) {
	if _, err := s.allocation(args.AllocID); err != nil {
		return nil, err
	}
	return done{}, s.Node.SignalAllocation(ctx, args.AllocID, args.Task, args.Signal)
}

type (
	usageArgs  struct{ AllocID, Task string }
	usageReply struct{ Stats *nomad.AllocResourceUsage }
)

func (s *server) usage(ctx context.Context, args *usageArgs) (any, error) {
	if _, err := s.allocation(args.AllocID); err != nil {
		return nil, err
	}
	usage, err := s.Node.AllocationUsage(ctx, args.AllocID, args.Task)
	if err != nil {
		return nil, err
	}
	return usageReply{clientapi.AllocationUsage(usage)}, nil
}

type (
	allocArgs   struct{ AllocID string }
	checksReply struct {
		Results map[string]structs.CheckResult
	}
)

func (s *server) checks(_ context.Context, args *allocArgs) (any, error) {
	if _, err := s.allocation(args.AllocID); err != nil {
		return nil, err
	}
	results, err := s.Node.AllocationChecks(args.AllocID)
	return checksReply{results}, err
}

func (s *server) collect(ctx context.Context, args *allocArgs) (any, error) {
	if _, err := s.allocation(args.AllocID); err != nil {
		return nil, err
	}
	return done{}, s.Node.CollectAllocation(ctx, args.AllocID)
}

func (s *server) collectAll(ctx context.Context, args *nodeArgs) (any, error) {
	if err := s.checkNode(args.NodeID); err != nil {
		return nil, err
	}
	s.Node.CollectGarbage(ctx)
	return done{}, nil
}
