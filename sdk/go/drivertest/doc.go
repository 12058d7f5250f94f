// Package drivertest emulates the node around one plugin, so that authors test
// drivers, and device plugins with [NewDevice], with plain `go test`:
//
//	node := drivertest.New(t, func() driver.Driver { return &hello{} })
//	handle, _, err := node.StartTask(node.Task(`{"greeting": "hi"}`))
//
// The same tests run against the compiled plugin with [NewCompiled] in place of
// [New]. Everything crosses the same codecs as in a node; configurations are checked
// against the driver's own schemas and get their defaults; what the driver asks of
// the node is recorded. A node may throw away an instance of a plugin after any call:
// this one does so after every call, so a driver that keeps tasks in memory fails. Another start
// of the agent is [Node.Restart], another build of the driver [Node.Upgrade], and time for a
// compiled driver is a [Clock]. [Node.TaskHCL] takes a config block as a job file has it.
//
// [Conform] tries the compiled plugin on what the contract asks of every plugin, so that
// `go test` does it as well:
//
//	drivertest.Conform(t, guestbuild.Plugin(t, "."), drivertest.Contract{Task: `greeting = "hi"`})
//
// It shares nothing with the node's own host but the contract in abi, which makes it
// a second reading of that contract. Start reading at [Node].
package drivertest
