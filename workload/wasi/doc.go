// Package wasi runs WASI preview 1 programs as workloads, inside the process that
// calls it: [Supervisor] implements workload.Supervisor. A program that runs here
// ends with the process.
//
// It knows nothing of plugins and tasks. Start reading at [Supervisor.Start].
package wasi
