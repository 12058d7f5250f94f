// Package clientrpc answers what Nomad's servers ask of a node, over the connection that the node
// has to them: logs, files, commands, figures, restarts and signals of its allocations, its
// metadata and volumes, and what its agent is doing.
//
// A server has resolved what its caller may do; what it asks for is not trusted beyond that.
// Allocations that are not here, paths that leave an allocation's directory and secrets are
// refused, what is under way at once is bounded, a reader that does not read is let go of, and
// tokens are neither kept nor logged.
//
// It knows nothing of the connection but package wire. Start reading at [New].
package clientrpc
