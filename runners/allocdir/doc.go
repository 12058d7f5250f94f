// Package allocdir is an allocation's directory on disk: a part that its tasks share
// and one directory for each task. It builds, moves, measures, reads and removes it.
//
// It knows nothing of runners or drivers, and mounts nothing but the secrets directories
// that are in memory: what a task sees of its directories is the driver's business. Start
// reading at [Dir], then [Dir.Open] for what may be read from outside, and
// [TaskDir.ReadySecrets].
package allocdir
