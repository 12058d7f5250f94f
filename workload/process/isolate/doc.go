// Package isolate gives a process a root, namespaces and few privileges of its own before it executes a
// command: pure Go, and the assembly of package forkexec.
//
// The supervisor starts its own program once more, as [Program]. Any program that imports this package will
// do: it is initialized early, knows the new process by its name, and never comes to main. As an [Isolator] it
// makes isolated processes for as long as it is asked to. Each time a thread builds the root in a mount
// namespace of its own, and lists what only the new process can do: mount its /proc, drop its privileges and
// execute the command. The process is forked from that thread, is a child of the supervisor, and makes
// those calls. Nothing else is in its namespaces by then that could look into it.
//
// A process that joins another one's namespaces has company there, so it gets a memory of its own first: it is
// such a program itself, reads a [Spec] from one pipe and becomes what that says. So do those that
// stay in the node's root, with bounds of their own. What goes wrong before the command comes back through
// another pipe, as an [abi.Error].
//
// The package knows nothing of tasks and workloads, and of cgroups only that there are some to enter.
//
// Start reading at [Isolator] and [Request] and, for the other way, at [Program].
package isolate
