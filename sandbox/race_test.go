//go:build race

package sandbox

const raced = true // the race detector is part of the program
