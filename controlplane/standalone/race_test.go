//go:build race

package standalone

// raced says that the race detector slows reading a file down, tenfold.
const raced = true
