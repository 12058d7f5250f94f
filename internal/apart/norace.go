//go:build !race

package apart

const raced = false // the race detector is not part of the program
