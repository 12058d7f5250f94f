// Package bench measures wasmnode beside its peers in one run, so that the ratio
// means something where the absolute time does not. It is a module of its own:
// what it compares with does not belong among the node's dependencies.
package bench
