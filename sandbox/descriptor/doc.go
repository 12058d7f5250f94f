// Package descriptor gives a WASI guest descriptors that are no files: TCP listeners that
// are open before it starts, the connections that it accepts on them, pipes for its
// signals and its standard input. The engine's own sockets cannot be waited for, listen only
// when the guest is made, and know no bounds.
//
// The functions of WASI keep the engine's meaning for all other descriptors: [Over] puts
// those of this package in front of one. Start reading at [Table].
package descriptor
