//go:build !race

package sandbox

const raced = false // the race detector is not part of the program
