package wasmtest

import "math/rand/v2"

// Mutate returns b with one to three bytes behind the header changed or left out.
func Mutate(g *rand.Rand, b []byte) []byte {
	b = append([]byte{}, b...)
	for range 1 + g.IntN(3) {
		if len(b) <= 8 {
			return b
		}
		i := 8 + g.IntN(len(b)-8)
		switch g.IntN(4) {
		case 0:
			b[i] ^= 1 << g.IntN(8)
		case 1:
			b[i] = byte(g.IntN(256))
		case 2:
			b[i]++
		case 3:
			b = append(b[:i], b[i+1:]...)
		}
	}
	return b
}
