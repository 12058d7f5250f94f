// Package devices has devices reserved and released: the [Manager] takes the catalog's
// device plugins into service, believes nothing of what they say before it is checked,
// tells the node of their devices, and keeps their figures.
//
// The package must never know what a task runner, an allocation runner or a job is; the
// [Manager] has the shape that package runners/task asks for.
//
// Start reading at [Manager]; what a plugin may say is checked in fingerprint.go,
// reservation.go and stats.go.
package devices
