package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/structs"
)

// nodeReply is what a server answers to a registration and to a heartbeat.
type nodeReply struct {
	HeartbeatTTL   time.Duration
	Servers        []serverInfo
	SignedIdentity *string
	Index          uint64
}

type serverInfo struct{ RPCAdvertiseAddr string }

// Register implements node.ControlPlane. A node that is ready is told to be so at once.
func (cp *ControlPlane) Register(ctx context.Context, n *structs.Node) (ttl time.Duration, err error) {
	ttl, err = cp.registerAs(ctx, n)
	if ctx.Err() == nil {
		cp.noteRefusal(err)
	}
	return ttl, err
}

// noteRefusal keeps why the servers do not take the node, and since when; nil: they do.
func (cp *ControlPlane) noteRefusal(err error) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if err == nil {
		cp.refusal = nil
		return
	}
	now := &Trouble{
		Since: time.Now(), Text: "the servers do not take the node: " + err.Error(),
		Remedy: "mend what it names; where that is not enough, look at the log of the servers",
	}
	if cp.refusal != nil {
		now.Since = cp.refusal.Since
	}
	cp.refusal = now
}

func (cp *ControlPlane) registerAs(ctx context.Context, n *structs.Node) (ttl time.Duration, err error) {
	secret, err := cp.cfg.Secret()
	if err != nil {
		return 0, fmt.Errorf("the node's secret: %w", err)
	}
	described := nodeOf(n, secret)
	if err := described.check(); err != nil {
		return 0, err
	}
	var reply nodeReply
	err = cp.register(ctx, described, cp.token.get(), &reply)
	if isUnknownNode(err) && cp.token.get() != "" {
		// The token is of a node that the servers have let go of.
		err = cp.register(ctx, described, "", &reply)
	}
	if wire.Says(err, "Permission denied") {
		introduction, _ := contentOf(cp.cfg.IntroductionFile) // it was read before
		err = fmt.Errorf("%w: the servers take only nodes that are introduced, or know another node of this ID: make a token with nomad node intro create, and put it into intro_token.jwt in data_dir%s, which is read at each try", err, cp.introductionHint(introduction))
	}
	if err != nil {
		return 0, err
	}
	cp.take(reply)
	cp.mu.Lock()
	before := cp.node
	cp.node, cp.secretID = n, secret
	cp.mu.Unlock()
	cp.events.take(before, n)
	if n.Status != structs.NodeReady {
		return bounded(reply.HeartbeatTTL), nil
	}
	return cp.Heartbeat(ctx, n.ID)
}

// register sends the node; without a token it introduces itself, if it can. Such a token is good for
// minutes: an operator may have made it since the last try.
func (cp *ControlPlane) register(ctx context.Context, n *wireNode, token string, reply *nodeReply) (err error) {
	if token == "" {
		if token, err = contentOf(cp.cfg.IntroductionFile); err != nil {
			return fmt.Errorf("the token that introduces the node: %w", err)
		}
	}
	return cp.servers.call(ctx, "Node.Register", struct {
		request
		Node *wireNode
	}{request{Region: cp.cfg.Region, AuthToken: token}, n}, reply)
}

// isUnknownNode reports whether a server does not know a node, or not by its token.
func isUnknownNode(err error) bool {
	return wire.Says(err, "node not found") || wire.Says(err, "Permission denied")
}

// Heartbeat implements node.ControlPlane. A node that the servers had missed tells them again
// what its allocations have become: only then they take it back.
func (cp *ControlPlane) Heartbeat(ctx context.Context, nodeID string) (ttl time.Duration, err error) {
	n, secret, err := cp.registered(nodeID)
	if err != nil {
		return 0, err
	}
	var reply nodeReply
	renew := cp.renew.Swap(false)
	err = cp.servers.call(ctx, "Node.UpdateStatus", struct {
		request
		NodeID               string
		Status               string
		ForceIdentityRenewal bool
	}{cp.asNode(secret), nodeID, string(n.Status), renew}, &reply)
	if err != nil {
		if renew {
			cp.renew.Store(true)
		}
		return 0, err
	}
	cp.take(reply)
	cp.tellEvents(ctx, nodeID)
	if reply.Index != 0 && n.Status == structs.NodeReady {
		if err := cp.tellAgain(ctx, nodeID); err != nil {
			cp.logger.Warn("telling the servers again what allocations have become failed", "error", err)
		}
	}
	return bounded(reply.HeartbeatTTL), nil
}

// The bounds of how long a server may have a registration last.
const leastTTL, mostTTL = time.Second, time.Hour

// bounded keeps a node from heartbeating without a pause, or never.
func bounded(ttl time.Duration) time.Duration { return min(max(ttl, leastTTL), mostTTL) }

// take keeps what a server has told of itself and of the node.
func (cp *ControlPlane) take(reply nodeReply) {
	var told []string
	for _, s := range reply.Servers {
		told = append(told, s.RPCAdvertiseAddr)
	}
	cp.servers.learn(told)
	if reply.SignedIdentity != nil && *reply.SignedIdentity != "" {
		cp.compareClocks(*reply.SignedIdentity)
		if err := cp.token.set(*reply.SignedIdentity); err != nil {
			cp.logger.Error("the node's token is not durable", "error", err)
		}
	}
}
