// Package driver is the guest SDK for driver plugins. A driver implements [Driver],
// and of the optional interfaces ([TaskWaiter], [TaskStopper], …) those that it
// needs; for the others the node has a default wherever the task is a workload that
// the node runs. The whole of a plugin's main package:
//
//	func init() { driver.Serve(&hello{}) }
//
//	func main() {}
//
// is compiled with the ordinary Go toolchain:
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags='-s -w' -o hello.wasm
//
// The same package builds natively, where the package drivertest calls it as the
// node would. What a driver asks of the node is in the sibling packages, one for
// each capability: log, task, process and wasm. They take the context of the call.
//
// # What a driver must not do
//
// A driver must not keep in memory what has to survive. The node runs several
// instances of a plugin side by side and throws one away whenever it likes, always
// after a panic, an exit or a missed deadline. What a task needs goes into its
// [TaskHandle]. One instance serves one call at a time; its goroutines and timers
// stand still between calls.
//
// Start reading at [Driver].
package driver
