// Package watcher waits for allocations on this node that have to end before another
// one starts, the one that it replaces and those that were preempted for it, and takes
// over the previous one's disk.
//
// It knows of another allocation only what [Other] offers. Start reading at [New].
package watcher
