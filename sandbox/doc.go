// Package sandbox is the one way into wazero, for plugins and for WASI tasks alike. A
// file becomes a guest that runs in five steps; each refuses what the next could not
// bound, and a [StageError] names the one that did:
//
//	read         scan.NewSource      the content, and its digest, once
//	scan         scan.Read           what is in the module; every count and limit is checked
//	meter        meter.Rewrite       the same program with a fuel counter, so that it can be stopped
//	compile      Engine.Compile      native code, once for each content: compile.go, compiler.go, diskcache.go
//	instantiate  Module.Instantiate  an instance with fuel and memory of its own: instance.go, memory.go
//
// [Snapshot] makes instantiating cheap: others are copied from an instance whose
// initialiser has run. Packages scan and meter use wasmbin, which reads and writes
// the binary format; package rootfs is what a guest sees of the host's files.
//
// The package knows nothing of capabilities, plugins or workloads: those give it host
// modules to link. Its mutexes guard a few fields each; none is held across I/O or a
// guest call, or while another is taken, but for a budget's and that of what it is within. One compile runs at a time, which a semaphore
// sees to.
//
// Start reading at [Engine.Compile].
package sandbox
