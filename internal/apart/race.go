//go:build race

package apart

const raced = true // the race detector is part of the program
