package scan_test

import (
	"errors"
	"testing"

	"github.com/wasmnode/wasmnode/host/scan"
	w "github.com/wasmnode/wasmnode/host/wasmbin/wasmtest"
)

// Whatever the bytes: no panic, memory within its bound, and either a spec or a
// typed error.
func FuzzRead(f *testing.F) {
	f.Add(sample())
	f.Add(sample()[:60])
	f.Add([]byte("\x00asm\x0d\x00\x01\x00"))
	f.Add(w.Module("\x02\x05\xff\xff\xff\xff\x0f"))
	f.Add(w.Module("\x07\x04\x80\xe1\xeb\x17"))
	f.Add(w.Build(w.Program{Funcs: []w.Func{{Locals: []string{"\xff\xff\xff\xff\x0f\x7f"}}}}))
	f.Add(body("\x02\x40\x03\x40\x41\x00\x0d\x01\x0b\x0b\xfd\x0c" + w.Repeat("\x01", 16) + "\x1a\xfc\x0a\x00\x00"))
	f.Add(body("\x1f\x40\x02\x02\x00\x03\x00\x0b\x41\x00\x0e\x02\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s *scan.Spec
		var err error
		used := allocated(func() { s, err = scan.Read(b, scan.Limits{}) })
		// The fuzzing engine allocates beside us, hence the second megabyte.
		if used > 4*uint64(len(b))+2<<20 {
			t.Fatalf("%d bytes allocated for %d", used, len(b))
		}
		var typed *scan.Error
		if (s == nil) != errors.As(err, &typed) {
			t.Fatalf("spec %v, error %v", s, err)
		}
		if typed != nil && (typed.Offset < 0 || typed.Offset > len(b)) {
			t.Fatalf("%v is outside of %d bytes", err, len(b))
		}
	})
}
