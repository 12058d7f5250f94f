// Package structs holds the domain's words: allocation, task state, task event,
// node, driver. It is data and pure functions only: it does no I/O, starts no
// goroutine, and knows no other package of the project.
//
// The job specification is not here: it comes from github.com/hashicorp/nomad/api,
// canonicalised once where a job enters the node, and is never changed after.
//
// Start reading at [Allocation], then [TaskState] and [TaskEvent].
package structs
