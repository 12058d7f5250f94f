// Package clustertest joins a node to real servers of Nomad: it runs jobs through them, ends
// the agent and the servers, and looks at what both sides have at the end. It also records what
// Nomad's own client and its servers say to each other, which tests elsewhere compare ours with.
//
// It is tests only. The servers are the operator's own, named by NOMAD_BIN, or several by
// NOMAD_BINS with colons between; without them nothing is run. Start reading at
// cluster_test.go.
package clustertest
