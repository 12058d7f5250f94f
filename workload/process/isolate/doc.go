// Package isolate makes a freshly forked process one that has a root, namespaces and
// few privileges of its own, and replaces it by a command: pure Go, without C before
// the runtime.
//
// The supervisor starts its own program once more, as [Program] with [CloneFlags]. Any
// program that imports this package will do: it is initialized early, knows the new process
// by its name, and never comes to main. The new process reads a
// [Spec] from one pipe, builds its root, drops its privileges and executes the
// command, which is process 1 of its namespace. What goes wrong before comes back
// through another pipe, as an [abi.Error].
//
// A process that joins another one's namespaces takes the same way, but enters a root
// that is there.
//
// The package knows nothing of tasks and workloads, and nothing of cgroups: whoever
// starts the process moves it into them before it sends the spec.
//
// Start reading at [Program] and [isolateAndExecute].
package isolate
