// Package testfile reads and runs the tests of a plugin that are written in HCL, for authors in
// any language: what package drivertest is in Go, as blocks of a file. A test is a node around the
// plugin's file and steps in order, such as start, restart_agent and wait; what a step answers, and
// what the plugin did to the node, is compared with what the test expects.
//
// The names are those of the contract's messages: what an operation answers has its fields. The
// package has no node of its own; it knows nothing of how a plugin is built.
//
// Start reading at [Read], then [Run].
package testfile
