// Package alloc runs one allocation: it prepares its directory, runs its tasks in the
// order of their life cycle, ends them together when they belong together, computes
// what has become of the allocation, and reports it.
//
// It knows drivers only as package task does, and neither who sends it updates nor
// who gets its reports. Start reading at [Runner], then loop.go for the one goroutine
// that decides everything.
package alloc
