// Package bench measures wasmnode beside its peers in one run, so that the ratio
// means something where the absolute time does not. It is a module of its own:
// what it compares with does not belong among the node's dependencies.
//
// Whole nodes are measured from outside, through the HTTP API that ours shares with
// Nomad's, and as root, as Nomad needs it for raw_exec. NOMAD_BIN names the binary of
// Nomad; without one only we are measured. TMPDIR is the disk that both write to.
package bench
