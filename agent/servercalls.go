package agent

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/wasmnode/wasmnode/controlplane/cluster/clientrpc"
	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/internal/acl"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// serverCalls answers what the servers of a cluster ask of the node, which they may do before
// there is one: the node is made with the connection to them.
type serverCalls struct{ answers atomic.Pointer[wire.Handler] }

var errStarting = errdefs.NewRecoverable(errdefs.Unavailable, "the agent is starting")

func (c *serverCalls) handler() *wire.Handler {
	return &wire.Handler{
		Call: func(ctx context.Context, method string, decode func(any) error) (any, error) {
			if h := c.answers.Load(); h != nil {
				return h.Call(ctx, method, decode)
			}
			return nil, errStarting
		},
		Streams: func(method string) bool {
			h := c.answers.Load()
			return h != nil && h.Streams(method)
		},
		Stream: func(ctx context.Context, method string, decode func(any) error, st *wire.Stream) error {
			return c.answers.Load().Stream(ctx, method, decode, st) // it takes the method: it is there
		},
	}
}

// answerServers has what servers ask answered by the node.
func (a *agent) answerServers() {
	cfg := clientrpc.Config{
		Logger:   a.logger.Named("servers"),
		Node:     a.node,
		NodeID:   a.node.ID(),
		Volumes:  a.cluster.Volumes(a.node),
		Identity: a.cluster,
		Logs:     a.logs,
		Machine:  a.machine,
		Journal:  journal,
		Debug:    a.cfg.EnableDebug || a.cfg.Access.ACL,
	}
	if a.cfg.Access.ACL {
		cfg.MayExec = a.mayExec
	}
	a.asked.answers.Store(clientrpc.New(cfg))
}

// mayExec refuses commands in a task that is not isolated to who may only run some in those that
// are. Servers leave that to the node; as Nomad's, one without acl.enabled leaves it.
func (a *agent) mayExec(ctx context.Context, token, namespace string) error {
	texts, everything, err := a.cluster.TokenRules(ctx, token)
	if err != nil || everything {
		return err
	}
	rules := make([]*acl.Rules, 0, len(texts))
	for _, text := range texts {
		parsed, err := acl.ParseRules(text)
		if err != nil {
			return fmt.Errorf("a policy of the servers is not understood: %w", err)
		}
		rules = append(rules, parsed)
	}
	if !acl.RightsOf(acl.Anyone, rules...).Namespace(namespace, "alloc-node-exec") {
		return errdefs.New(errdefs.PermissionDenied, "%v: a command in a task that is not isolated needs alloc-node-exec", structs.ErrACLDenied)
	}
	return nil
}
