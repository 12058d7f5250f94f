package clientrpc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/clientapi"
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
	claims, err := claimsOf(s.Identity.Token())
	if err != nil {
		return nil, err
	}
	return identityReply{claims}, nil
}

// claimsOf reads a token without verifying it: it is the node's own. No part of it is in the
// error.
func claimsOf(token string) (claims map[string]any, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("the node's identity is no signed token")
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(text, &claims)
	}
	if err != nil {
		return nil, errors.New("the node's identity has no claims that can be read")
	}
	return claims, nil
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
