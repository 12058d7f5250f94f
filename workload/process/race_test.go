//go:build race

package process_test

// leastMemory is what an isolated process needs while the race detector's own memory
// counts.
const leastMemory = 64 << 20
