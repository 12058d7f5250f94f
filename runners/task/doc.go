// Package task runs one task of an allocation: it prepares the task, asks its driver to
// start it, waits, restarts it by policy, and ends it when it is to end. What others want
// of it (kill, restart, signal, shut down, update) are requests: they are recorded, and
// the runner's one goroutine carries them out from wherever it is.
//
// It knows drivers through [Driver] only, and nothing of the allocation's other
// tasks. Start reading at [Runner], then loop.go, where a task's phases are.
package task
