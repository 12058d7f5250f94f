// Package check runs the checks of a task's services: whether something accepts
// connections, answers over HTTP, or a command in the task succeeds. One run is bounded
// in time and in what it reads.
//
// It knows nothing of when to run and of what follows from a result; the allocation's
// runner does. Start reading at [New] and [Check.Probe].
package check
