// Package devices has devices reserved and released: the [Manager] takes the catalog's
// device plugins into service, validates all of their answers,
// reports their devices to the node, and keeps their statistics.
//
// The package must never know what a task runner, an allocation runner or a job is; the
// [Manager] has the shape that package runners/task asks for.
//
// No two of the package's locks are held at once, and none across I/O, a call of a guest
// or a callback. Releases that failed are written by one goroutine at a time, for all who
// wait for it.
//
// Start reading at [Manager]; what a plugin may answer is checked in fingerprint.go,
// reservation.go and stats.go.
package devices
