// Package controlplane is the folder of the control planes: each turns jobs into
// allocations and tells nodes, through the interface node.ControlPlane, what to run. The
// package itself has no code, and knows none of them.
//
// There is one: package standalone, which is embedded in the agent and decides for one
// machine. One that talks to Nomad's own servers has its place beside it, and passes the
// same conformance suite (package node/controlplanetest).
package controlplane
