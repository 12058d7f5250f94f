// Command dice has state of every kind that copies of an instance could share by
// mistake.
package main

import (
	"crypto/rand"
	"encoding/binary"
	mathrand "math/rand/v2"
	"runtime"
	"time"
)

var (
	started = time.Now()
	words   = map[string]int{"made": 1, "at": 2, "the": 3, "start": 4}
	calls   int32
	kept    [][]byte
)

//go:wasmexport count
func count() int32 {
	calls++
	return calls
}

//go:wasmexport roll
func roll() int64 { return int64(mathrand.Uint64()) }

//go:wasmexport entropy
func entropy() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return int64(binary.LittleEndian.Uint64(b[:]))
}

// age returns how long ago the process began, in nanoseconds.
//
//go:wasmexport age
func age() int64 { return int64(time.Since(started)) }

// work uses the heap, the collector and the map that was there from the start.
//
//go:wasmexport work
func work(n int32) int32 {
	for i := range n {
		kept = append(kept, make([]byte, 1000))
		if i%100 == 0 {
			kept = nil
			runtime.GC()
		}
		words[string(rune('a'+i%26))]++
	}
	sum := 0
	for _, v := range words {
		sum += v
	}
	return int32(sum)
}

func main() {}
