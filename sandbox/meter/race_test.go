//go:build race

package meter_test

// raced says that the race detector slows the engine's compiler down, tenfold and in
// some shapes a hundredfold.
const raced = true
