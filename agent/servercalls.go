package agent

import (
	"context"
	"sync/atomic"

	"github.com/wasmnode/wasmnode/controlplane/cluster/clientrpc"
	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
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
	a.asked.answers.Store(clientrpc.New(clientrpc.Config{
		Logger:   a.logger.Named("servers"),
		Node:     clientAPI{a.node},
		NodeID:   a.node.ID(),
		Volumes:  a.cluster.Volumes(a.node),
		Identity: a.cluster,
		Logs:     a.logs,
		Machine:  a.machine,
		Journal:  journal,
		Debug:    a.cfg.EnableDebug || a.cfg.Access.ACL,
	}))
}
