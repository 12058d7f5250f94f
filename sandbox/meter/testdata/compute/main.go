// Command compute has the Go kernels of the meter's tests and benchmarks: each
// takes its size and returns a number that depends on all of its work.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"regexp"
	"sort"
	"strings"
)

var composite [1 << 20]bool

//go:wasmexport sieve
func sieve(n uint32) uint32 {
	s := composite[:n]
	clear(s)
	primes := uint32(0)
	for i := 2; i < len(s); i++ {
		if !s[i] {
			primes++
			for j := i * 2; j < len(s); j += i {
				s[j] = true
			}
		}
	}
	return primes
}

//go:wasmexport hash
func hash(kib uint32) uint32 {
	h := sha256.New()
	b := make([]byte, 1024)
	for range kib {
		h.Write(b)
	}
	return uint32(h.Sum(nil)[0])
}

//go:wasmexport fib
func fib(n uint32) uint32 {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

//go:wasmexport maps
func maps(n uint32) uint32 {
	m := map[uint32]uint32{}
	for i := range n {
		m[i*2654435761] += i
	}
	var keys []int
	for k := range m {
		keys = append(keys, int(k))
	}
	sort.Ints(keys)
	return uint32(keys[len(keys)/2])
}

type record struct {
	ID   uint32            `json:"id"`
	Name string            `json:"name"`
	Env  map[string]string `json:"env"`
}

//go:wasmexport json
func encode(n uint32) uint32 {
	sum := uint32(0)
	for i := range n {
		b, err := json.Marshal(record{i, strings.Repeat("n", int(i%20)), map[string]string{"A": "1", "B": "2"}})
		if err != nil {
			panic(err)
		}
		var r record
		if err := json.Unmarshal(b, &r); err != nil {
			panic(err)
		}
		sum += r.ID + uint32(len(b))
	}
	return sum
}

var words = regexp.MustCompile(`([a-z]+)-(\d+)`)

//go:wasmexport match
func match(n uint32) uint32 {
	text := bytes.Repeat([]byte("web-12 db-7 Cache-9 "), int(n))
	return uint32(len(words.FindAllIndex(text, -1)))
}

//go:wasmexport spin
func spin() {
	for {
	}
}

func main() {}
