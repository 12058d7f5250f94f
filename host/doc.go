// Package host runs plugins: it loads a `.wasm` file, describes it, bounds it and
// calls its operations. A plugin is a set of functions, not a process: every call
// runs in a sandboxed instance from that plugin's pool, under a deadline, and an
// instance that trapped, exited or was interrupted is never used again.
//
// What a plugin may do is in its import section (one host module a capability, one
// file here each) and in the operator's [Grants]. The package knows nothing of jobs,
// allocations or health: those are the business of the layers above.
//
// Its mutexes guard a few fields each (a pool's instances, the table of programs, the
// counters). None is held across I/O, a guest call or a callback, or while another is
// taken, so that they have no order. Whoever loads a plugin counts those who use it.
//
// Start reading at [Host.Load], then [Plugin.Call].
package host
