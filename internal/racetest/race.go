//go:build race

package racetest

// On is whether the race detector is part of the program.
const On = true
