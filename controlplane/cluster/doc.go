// Package cluster is the control plane of a node that has joined a cluster of Nomad's servers:
// they decide what runs, and package wire carries what is said. It implements
// node.ControlPlane: the node is registered and heartbeats, allocations are pulled as they
// change, and what became of them is reported in batches.
//
// What a server sends is looked at before it becomes an allocation: one that cannot be run
// safely is reported as failed, and the node goes on. While no server answers, calls wait,
// tasks run on, and what is to be told is kept by the node.
//
// The package knows nothing of how allocations run. Start reading at [Open].
package cluster
