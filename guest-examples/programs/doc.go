// Package programs holds the tests of the example programs as what they are: WASI
// programs. Each folder is one of them.
package programs
