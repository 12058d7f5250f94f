// Package devices has devices reserved and released: the [Manager] takes the catalog's
// device plugins into service, believes nothing of what they say before it is checked,
// tells the node of their devices, and keeps their figures.
//
// The package must never know what a task runner, an allocation runner or a job is; the
// [Manager] has the shape that package runners/task asks for.
//
// No two of the package's locks are held at once, and none across I/O, a call of a guest
// or a callback. Releases that failed are written by one goroutine at a time, for all who
// wait for it.
//
// Start reading at [Manager]; what a plugin may say is checked in fingerprint.go,
// reservation.go and stats.go.
package devices
