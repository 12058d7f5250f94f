// Package wasi runs WASI preview 1 programs as workloads, inside the process that
// calls it: [Runtime] implements workload.Runtime. A program that runs here
// ends with the process.
//
// How a program ended is reported as a shell reports it of a process:
//
//	it exited with N                exit code N, at most 255
//	it trapped                      exit code 134, signal 6, and the trap's text
//	a signal ended it               exit code 128+N, signal N
//	it trapped for want of memory   exit code 137, signal 9, OOMKilled, and the limit
//	the supervisor was closed       exit code 137, signal 9, and that
//
// It knows nothing of plugins and tasks. Start reading at [Runtime.Start].
package wasi
