package clientrpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/internal/claims"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

type nodeArgs struct{ NodeID string }

// checkNode refuses what is meant for another node.
func (s *server) checkNode(id string) error {
	if id != "" && id != s.NodeID {
		return errdefs.New(errdefs.NotFound, "Unknown node %q", id)
	}
	return nil
}

type hostStatsReply struct{ HostStats *clientapi.HostStats }

func (s *server) hostStats(_ context.Context, args *nodeArgs) (any, error) {
	if err := s.checkNode(args.NodeID); err != nil {
		return nil, err
	}
	usage, err := s.Node.HostUsage()
	if err != nil {
		return nil, err
	}
	return hostStatsReply{clientapi.HostUsage(usage, time.Now())}, nil
}

type metadataArgs struct {
	NodeID string
	Meta   map[string]*string
}

func (s *server) applyMetadata(ctx context.Context, args *metadataArgs) (any, error) {
	if err := s.checkNode(args.NodeID); err != nil {
		return nil, err
	}
	if len(args.Meta) == 0 {
		return nil, invalid("missing required Meta object")
	}
	ctx, cancel := context.WithTimeout(ctx, tellMetadata)
	defer cancel()
	m, err := s.Node.ApplyMetadata(ctx, args.Meta)
	if err != nil {
		return nil, err
	}
	return clientapi.Metadata(m), nil
}

// tellMetadata bounds how long a change waits until the servers know it: they come to know it
// later, too.
const tellMetadata = 5 * time.Second

func (s *server) readMetadata(_ context.Context, args *nodeArgs) (any, error) {
	if err := s.checkNode(args.NodeID); err != nil {
		return nil, err
	}
	return clientapi.Metadata(s.Node.Metadata()), nil
}

var errNoIdentity = errors.New("node does not have a JWT identity token")

type identityReply struct{ Claims map[string]any }

// identity tells what the node's identity says, and not the token itself.
func (s *server) identity(_ context.Context, args *nodeArgs) (any, error) {
	if err := s.checkNode(args.NodeID); err != nil {
		return nil, err
	}
	if s.Identity == nil || s.Identity.Token() == "" {
		return nil, errNoIdentity
	}
	var all map[string]any
	if err := claims.Read(s.Identity.Token(), &all); err != nil {
		return nil, fmt.Errorf("the node's identity %w", err)
	}
	return identityReply{all}, nil
}

func (s *server) renewIdentity(_ context.Context, args *nodeArgs) (any, error) {
	if err := s.checkNode(args.NodeID); err != nil {
		return nil, err
	}
	if s.Identity == nil {
		return nil, errNoIdentity
	}
	s.Identity.Renew()
	return nil, nil
}

func (s *server) host(_ context.Context, args *nodeArgs) (any, error) {
	if err := s.checkNode(args.NodeID); err != nil {
		return nil, err
	}
	if s.Machine == nil {
		return nil, errdefs.New(errdefs.Unimplemented, "this agent tells nothing of its machine")
	}
	return nomad.HostDataResponse{AgentID: s.NodeID, HostData: clientapi.HostData(s.Machine())}, nil
}
