// Package meter makes guests stoppable. [Rewrite] inserts a fuel counter into a
// module, and [Fuel] is the host's side of it: when the counter is used up, the
// guest calls the host, which looks whether the call is still wanted, accounts for
// the time, and hands out the next quantum.
//
// # Why
//
// The engine runs guests as native code, which Go can neither preempt nor stop.
// Its own remedy, a check at every loop iteration, makes a Go guest three to six
// times slower and overlooks call trees without a loop; without it, one looping
// guest also holds up the garbage collector, and with it the whole process. The
// fuel counter costs some ten percent, sees every loop, every call tree and every
// bulk operation, and each visit to the host is a safe point.
//
// # What is inserted
//
// One mutable global, the counter, which starts at 0 so that the first loop or
// call asks the host, and one import, yield, whose result is the next quantum. At
// the head of every loop, and at the entry of functions that call others or are
// long, the counter is charged with the instructions that follow, in units of 32,
// a call counting as nine. Bulk memory and table instructions are charged by their
// length, and long fills and copies are done in pieces. A tight loop is charged for
// several iterations together, which it counts in a local. The counter cannot be
// named by the guest: its index was checked against the number of globals that the
// module had before.
//
// The module is encoded again from what was decoded of it, in canonical form.
// Function names are kept for stack traces; other custom sections, debug
// information included, are dropped, since their offsets would be wrong. [Origins]
// say where the code is from, to read debug information by.
//
// The package must never know about plugins, policies or capabilities.
//
// Start reading at [Rewrite], then [Fuel].
package meter
