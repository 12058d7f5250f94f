// Package httpapi is the node's HTTP API: Nomad's /v1 paths, parameters, headers and
// JSON, over an embedded control plane and the node that it drives. It translates
// and nothing more: it holds no state and decides nothing.
//
// Start reading at [Handler]; a file holds one group of endpoints.
package httpapi
