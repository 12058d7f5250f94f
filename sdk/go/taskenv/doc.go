// Package taskenv is the environment of a task, for authors of drivers.
//
// # What the node has done already
//
// A task's config block comes with each reference in it replaced, TaskConfig.User too, and
// TaskConfig.Env has all that the task is to see: the NOMAD_ variables, those of the job file, with
// their references replaced, and what devices, templates and volumes added. A driver hands Env on as
// it is.
//
// # What is left for a driver
//
// [Replace] replaces references in texts of other origin, such as a pattern in the plugin's own
// configuration. [Variables] are the NOMAD_ variables that a node gives a task, for tests that have
// no node.
//
// Both do as the node does; a test compares them with it. Start reading at [Replace].
package taskenv
