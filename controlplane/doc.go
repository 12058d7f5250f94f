// Package controlplane is the folder of the control planes: each turns jobs into
// allocations and tells nodes, through the interface node.ControlPlane, what to run. The
// package itself has no code, and knows none of them.
//
// There are two: package standalone, which is embedded in the agent and decides for one
// machine, and package cluster, which asks Nomad's own servers.
package controlplane
