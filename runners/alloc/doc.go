// Package alloc runs one allocation: it prepares its directory, runs its tasks in the
// order of their life cycle, ends them together when they belong together, computes
// what has become of the allocation, and reports it.
//
// It knows drivers only as package task does, and nobody who sends it updates or
// hears its reports. Start reading at [Runner], then loop.go for the one goroutine
// that decides everything.
package alloc
