package scan_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sandbox/scan"
	w "github.com/wasmnode/wasmnode/sandbox/wasmbin/wasmtest"
)

// Whatever the bytes: no panic, memory within its bound, and either a spec or a
// typed error.
func FuzzRead(f *testing.F) {
	for _, b := range seeds() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s *scan.Module
		var err error
		used := allocated(func() { s, err = scan.Read(scan.NewSource(b), scan.Limits{}) })
		// The fuzzing engine allocates beside us, hence the second megabyte.
		if used > 4*uint64(len(b))+2<<20 {
			t.Fatalf("%d bytes allocated for %d", used, len(b))
		}
		checkAnswer(t, b, s, err)
	})
}

func seeds() [][]byte {
	return [][]byte{
		sample(),
		sample()[:60],
		[]byte("\x00asm\x0d\x00\x01\x00"),
		w.Module("\x02\x05\xff\xff\xff\xff\x0f"),
		w.Module("\x07\x04\x80\xe1\xeb\x17"),
		w.Build(w.Program{Funcs: []w.Func{{Locals: []string{"\xff\xff\xff\xff\x0f\x7f"}}}}),
		body("\x02\x40\x03\x40\x41\x00\x0d\x01\x0b\x0b\xfd\x0c" + w.Repeat("\x01", 16) + "\x1a\xfc\x0a\x00\x00"),
		body("\x1f\x40\x02\x02\x00\x03\x00\x0b\x41\x00\x0e\x02\x00\x00\x00"),
	}
}

// checkAnswer wants either a spec or an error with a place within the file.
func checkAnswer(t *testing.T, b []byte, s *scan.Module, err error) {
	var typed *scan.Error
	if (s == nil) != errors.As(err, &typed) {
		t.Fatalf("%x: spec %v, error %v", b, s, err)
	}
	if typed != nil && (typed.Offset < 0 || typed.Offset > len(b)) {
		t.Fatalf("%x: %v is outside of %d bytes", b, err, len(b))
	}
}

// Mutants of modules that reach every section, in numbers that the fuzzing engine
// does not reach.
func TestMutatedModulesAreReadOrRefused(t *testing.T) {
	rounds, seed := 100_000, uint64(1) // the same mutants each time, but in a soak
	if os.Getenv("WASMNODE_SOAK") != "" {
		rounds, seed = 100_000_000, uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	g := rand.New(rand.NewPCG(1, seed))
	corpus, read := seeds(), 0
	for range rounds {
		b := w.Mutate(g, corpus[g.IntN(len(corpus))])
		s, err := scan.Read(scan.NewSource(b), scan.Limits{})
		checkAnswer(t, b, s, err)
		if s != nil {
			read++
		}
	}
	require.NotZero(t, read)
	t.Logf("%d mutants, %d read", rounds, read)
}
