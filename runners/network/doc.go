// Package network gives allocations networks of their own: a network namespace that the
// tasks of one allocation share, with what plugins of the Container Network Interface put
// into it.
//
// It runs the plugins, and knows nothing of tasks. Start reading at [Networks.Up].
package network
