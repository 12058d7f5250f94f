// Package isolate gives a process a root, namespaces and few privileges of its own before it executes a
// command: pure Go, and the assembly of package forkexec.
//
// Most of it is done before there is a process. [Prepare] builds the root in a mount namespace, by a
// thread that ends afterwards, and lists what only the process itself can do: enter that, mount its /proc,
// drop its privileges and execute the command. The process is forked with [CloneFlags] and makes those calls,
// without a memory of its own. Nothing else is in its namespaces by then that could look into it.
//
// A process that joins another one's namespaces has company there, so it gets a memory first: the supervisor
// starts its own program once more, as [Program]. So do those that stay in the node's root, with bounds of
// their own. Any program that imports this package will do: it is initialized early, knows the new process
// by its name, and never comes to main. The new process reads a [Spec] from one pipe and does the same by
// itself. What goes wrong before the command comes back through another pipe, as an [abi.Error].
//
// The package knows nothing of tasks and workloads, and nothing of cgroups: whoever
// starts the process moves it into them.
//
// Start reading at [Prepare] and, for the other way, at [Program].
package isolate
