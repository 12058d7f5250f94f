package sandbox

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	mathrand "math/rand/v2"
)

// randomSource gives a guest random numbers and remembers the first ones, since what
// a guest makes of them is the same in all copies of it.
type randomSource struct {
	drawn  []byte
	sealed bool // what is drawn from now on is each instance's own
}

// goSeedBytes is how much Go's runtime draws when it starts, and nothing more.
const goSeedBytes = 32

// Read implements [io.Reader].
func (r *randomSource) Read(b []byte) (int, error) {
	n, err := io.ReadFull(rand.Reader, b)
	if !r.sealed && len(r.drawn) <= goSeedBytes {
		r.drawn = append(r.drawn, b[:n]...)
	}
	return n, err
}

// find returns where in a guest's memory the generator is that was seeded with the random
// numbers, nil when none were drawn.
func (r *randomSource) find(memory []byte) (*goRandom, error) {
	switch len(r.drawn) {
	case 0:
		return nil, nil
	case goSeedBytes:
		if at, ok := findGenerator(memory, [goSeedBytes]byte(r.drawn)); ok {
			return &goRandom{at}, nil
		}
		return nil, errors.New("its generator of random numbers was not found")
	default:
		return nil, errors.New("it draws random numbers at its start")
	}
}

// goRandom is where the generator of a Go guest's only thread is: 256 bytes of
// numbers in stock, then at this offset the seed, then as three 32-bit words the next
// number in stock, how many there are, and the counter of refills. It is ChaCha8, as
// in math/rand/v2.
type goRandom struct{ at uint32 }

// renew gives the generator in a memory a seed of its own and empties its stock.
func (g *goRandom) renew(memory []byte) {
	if g == nil {
		return
	}
	state := memory[g.at:]
	_, _ = rand.Read(state[:goSeedBytes]) // it never fails
	next, stocked, refills := state[32:36], state[36:40], state[40:44]
	copy(next, stocked)
	clear(refills)
}

// How far a generator's seed may be from the guest's.
const (
	maxDrawnBefore = 28 // numbers that the runtime drew from its first generator before
	maxReseeds     = 8  // a generator reseeds itself every 124 numbers
)

// findGenerator looks for a generator whose seed was derived from this one.
func findGenerator(memory []byte, seed [goSeedBytes]byte) (at uint32, ok bool) {
	seeds := possibleSeeds(seed)
	for p := 0; p+44 <= len(memory); p += 8 {
		if s, ok := seeds[binary.LittleEndian.Uint64(memory[p:])]; ok && s == [goSeedBytes]byte(memory[p:]) {
			return uint32(p), true
		}
	}
	return 0, false
}

// possibleSeeds returns what the seed of the thread's generator can be by now, by its
// first eight bytes: four numbers in a row of the first generator, or what follows.
func possibleSeeds(seed [goSeedBytes]byte) map[uint64][goSeedBytes]byte {
	first := mathrand.NewChaCha8(seed)
	var numbers []byte
	for range maxDrawnBefore + 4 {
		numbers = binary.LittleEndian.AppendUint64(numbers, first.Uint64())
	}
	out := map[uint64][goSeedBytes]byte{}
	for i := range maxDrawnBefore + 1 {
		s := [goSeedBytes]byte(numbers[8*i:])
		generator := mathrand.NewChaCha8(s)
		for range 1 + maxReseeds {
			out[binary.LittleEndian.Uint64(s[:])] = s
			s = nextSeed(generator, s)
		}
	}
	return out
}

// nextSeed draws numbers until the generator has given itself another seed.
func nextSeed(g *mathrand.ChaCha8, seed [goSeedBytes]byte) [goSeedBytes]byte {
	for {
		for range 31 {
			g.Uint64()
		}
		state, _ := g.MarshalBinary() // a name, how many numbers were used, and the seed; it never fails
		if s := [goSeedBytes]byte(state[len(state)-goSeedBytes:]); s != seed {
			return s
		}
	}
}
