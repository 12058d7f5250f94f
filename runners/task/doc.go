// Package task runs one task of an allocation: it prepares the task, asks its driver to
// start it, waits, restarts it by policy, and ends it when somebody wishes so. What
// others want of it (kill, restart, signal, shut down, update) are wishes: they are
// recorded, and the runner's one goroutine converges to them from wherever it is.
//
// It knows drivers through [Driver] only, and nothing of the allocation's other
// tasks. Start reading at [Runner], then loop.go, where a task's life is.
package task
