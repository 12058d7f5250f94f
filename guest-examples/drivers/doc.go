// Package drivers holds the tests of what the example drivers have in common, and of
// those that are not written in Go. Each folder is one driver plugin; start reading at
// wasi, which is the shortest that is of real use.
package drivers
