// Package node is the client: it keeps what runs on this machine equal to what a
// [ControlPlane] wants, reports to it what became of that, and what the machine has to
// offer. It survives being killed at any instant: what it needs to go on is durable
// before it acts.
//
// It does not decide what runs, and does not know who does: the embedded control plane
// and real Nomad servers look the same from here. Start reading at [Node.Run].
package node
