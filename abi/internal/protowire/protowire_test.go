package protowire_test

import (
	"testing"

	"github.com/wasmnode/wasmnode/abi/internal/protowire"
)

// What the rest of the package does is compared with Google's implementation in the
// node's package internal/wiretest.

func TestErrorsNameTheirNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{protowire.Errorf("proto: wrong wireType = %d for field Key", 5).Error(), "proto: wrong wireType = 5 for field Key"},
		{protowire.Errorf("tag %d (wire type %d)", int32(-1), uint64(7)).Error(), "tag -1 (wire type 7)"},
		{protowire.Errorf("50% of %d").Error(), "50% of %d"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
