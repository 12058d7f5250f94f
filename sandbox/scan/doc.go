// Package scan reads what a WebAssembly file declares, without running or
// compiling any of it. The result, a [Spec], is plain data, the same on every
// machine: what `plugin inspect` shows and what policy decides on.
//
// A file that passes [Read] is safe to hand to the meter and the engine: every
// count, length and index in it has been checked, it stays within [Limits], and
// so the engine's decoder allocates and its compiler works within known bounds.
// Reading is linear in the file and needs at most four bytes for each of its
// bytes beside 1 MiB.
//
// The package must never know about wazero, plugins, policies or files.
//
// Start reading at [Read] and [Spec].
package scan
