package clientrpc

import (
	"context"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs/errdefs"
)

type volumeArgs struct {
	ID, Name, PluginID, Namespace, NodeID, HostPath                     string
	RequestedCapacityMinBytes, RequestedCapacityMaxBytes, CapacityBytes int64
	Parameters                                                          map[string]string
}

// volume is the volume that is meant, unless it is another node's or the node makes none.
func (s *server) volume(args *volumeArgs) (*nomad.HostVolume, error) {
	if err := s.checkNode(args.NodeID); err != nil {
		return nil, err
	}
	if s.Volumes == nil {
		return nil, errdefs.New(errdefs.FailedPrecondition, "the node makes no dynamic host volumes")
	}
	if args.ID == "" || args.Name == "" {
		return nil, invalid("a volume has an ID and a name")
	}
	return &nomad.HostVolume{
		ID: args.ID, Name: args.Name, PluginID: args.PluginID, Namespace: args.Namespace, NodeID: s.NodeID, HostPath: args.HostPath,
		RequestedCapacityMinBytes: args.RequestedCapacityMinBytes, RequestedCapacityMaxBytes: args.RequestedCapacityMaxBytes,
		CapacityBytes: args.CapacityBytes, Parameters: args.Parameters,
	}, nil
}

type volumeReply struct {
	VolumeName, VolumeID, HostPath string
	CapacityBytes                  int64
}

// createVolume has a volume made by its plugin.
func (s *server) createVolume(ctx context.Context, args *volumeArgs) (any, error) {
	v, err := s.volume(args)
	if err != nil {
		return nil, err
	}
	if v.PluginID == "" {
		return nil, invalid("volume %q has no plugin", v.Name)
	}
	made, err := s.Volumes.CreateVolume(ctx, v)
	if err != nil {
		return nil, err
	}
	s.Logger.Info("a host volume was made", "volume_id", v.ID, "name", v.Name, "path", made.Path)
	return volumeReply{v.Name, v.ID, made.Path, made.CapacityBytes}, nil
}

// registerVolume takes up a volume that is there.
func (s *server) registerVolume(ctx context.Context, args *volumeArgs) (any, error) {
	v, err := s.volume(args)
	if err != nil {
		return nil, err
	}
	v.PluginID = "" // no plugin makes it
	if _, err := s.Volumes.CreateVolume(ctx, v); err != nil {
		return nil, err
	}
	s.Logger.Info("a host volume was registered", "volume_id", v.ID, "name", v.Name, "path", v.HostPath)
	return nil, nil
}

// deleteVolume has a volume removed by its plugin; without one, nothing is lost.
func (s *server) deleteVolume(ctx context.Context, args *volumeArgs) (any, error) {
	v, err := s.volume(args)
	if err != nil {
		return nil, err
	}
	if err := s.Volumes.DeleteVolume(ctx, v); err != nil {
		return nil, err
	}
	s.Logger.Info("a host volume was removed", "volume_id", v.ID, "name", v.Name)
	return volumeReply{VolumeName: v.Name, VolumeID: v.ID}, nil
}
