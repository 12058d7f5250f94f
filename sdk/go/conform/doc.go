// Package conform is the contract of plugins as a program: what every plugin has to do, tried
// on one. It calls each operation with ordinary, empty, broken and large requests, takes tasks
// through their lives with instances that are kept and that are thrown away, fails each use of a
// capability in each way, hands over handles that the plugin did not make, and looks at what it
// sends and logs.
//
// It shares nothing with the node's host but the contract in abi, so that it runs on whatever
// can call a plugin: a [Node]. Start reading at [Run].
package conform
