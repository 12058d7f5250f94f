// Package racetest tells tests of times and sizes whether the race detector is part of the program,
// with which both are others.
package racetest
