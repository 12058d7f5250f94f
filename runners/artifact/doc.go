// Package artifact downloads what a task's artifact blocks name into its directories:
// files and archives over HTTP, and git repositories. Everything about it is bounded
// (bytes, files, time) and ends with its context, and nothing is written outside the
// directory that the block names as its destination.
//
// The addresses, options and checksums are those of go-getter, as in Nomad. Local files
// are no source: they would be the agent's, not the task's.
//
// It knows nothing of tasks' life cycles and events; the task runner's hook does. Start reading
// at [Fetch].
package artifact
