// Package trial runs one plugin without a node, for its author: with real capabilities on a
// host of its own, under the grants that it is given, about a task in a directory of its own.
// It says what the plugin asked the host for, how long that took, and what a call cost. The
// calls of a plugin of a node's host are recorded by [RecordLive], to be repeated in a trial.
//
// It knows nothing of jobs, allocations or a plugin directory. Start reading at [Open], then
// [Trial.Call].
package trial
