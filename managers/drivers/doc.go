// Package drivers hands drivers out by name: the [Manager] takes the catalog's drivers into
// service and reports their health to the node, and a [Driver] is one version of one, as
// tasks use it.
//
// The package must never know what a task runner, an allocation runner or a job is; a
// [Driver] has the shape that package runners/task asks for.
//
// No two of the package's locks are held at once, and none across I/O, a call of a guest
// or a callback.
//
// Start reading at [Manager] and [Driver].
package drivers
