// Package watcher waits for allocations that have to end before another one starts, the one
// that it replaces, wherever that is, and those that were preempted for it on this node. It
// takes over the previous one's disk.
//
// It knows of another allocation only what [Other] and [Elsewhere] offer. Start reading at [New].
package watcher
