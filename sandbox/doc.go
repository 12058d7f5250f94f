// Package sandbox is the one way into wazero, for plugins and for WASI tasks alike:
// read → scan → meter → compile. What it hands out carries a fuel meter, so that it
// can be interrupted wherever it is; it is bounded in memory, and was compiled once.
//
// It knows nothing of capabilities, plugins or workloads: those give it host
// modules to link. Start reading at [Engine.Compile].
package sandbox
