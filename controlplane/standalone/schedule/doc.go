// Package schedule decides what a job needs: which allocations to place where, which
// to stop, which to change in place, and why something cannot be placed. It is a pure
// function of what it is given: it reads no clock, stores nothing and starts nothing.
//
// Start reading at [Schedule]; reconcile.go decides per group, feasible.go says where
// a group may run, capacity.go where it fits.
package schedule
