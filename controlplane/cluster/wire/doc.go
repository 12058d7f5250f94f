// Package wire speaks the RPC of Nomad's servers, from the side of a client node: one TCP
// connection, inside TLS where there is a configuration of it, over which both sides open
// streams (yamux). A stream carries requests and responses, or one streaming request; what
// is in them are msgpack values in the dialect of Nomad.
//
// A server is not trusted: each value that is read is bounded in bytes, depth and number of
// values before it is decoded, streams and requests under way are bounded, what has begun to
// come or to be read has to go on within a time, and a peer that sends what is none of the
// protocol loses its connection.
//
// The package knows nothing of nodes and allocations: those are in package cluster. Start
// reading at [Dial], and at [Handler] for what servers ask of a node.
package wire
