// Package runnertest is a driver for tests whose tasks behave as their config sets, in the
// test's own process and, in a synctest bubble, in the test's own time. A [World] is what
// drivers run things in: it outlives the drivers and the runners, as a supervisor
// does, so that a test can end an agent and start another one over it.
//
// It stands in for the driver manager in unit tests only.
package runnertest
