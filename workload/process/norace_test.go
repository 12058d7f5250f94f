//go:build !race

package process_test

// leastMemory is the least that an isolated process may have.
const leastMemory = 4 << 20
