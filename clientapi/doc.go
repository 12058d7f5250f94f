// Package clientapi is what a node shows of its allocations and of itself in the form that
// Nomad's tools know: logs and files as frames, commands in tasks, figures, the agent's log. It
// is the same whether it is asked over HTTP (package httpapi) or by the servers of a cluster
// (package clientrpc), and knows neither: whoever asks has decided that it may be told.
//
// Start reading at [Node]; a file has one subject.
package clientapi
