package meter_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	w "github.com/wasmnode/wasmnode/sandbox/wasmbin/wasmtest"
)

const bulkPages = 5

// bulkGuest has fill and copy, as the instructions, and grow.
func bulkGuest() []byte {
	three := "\x7f\x7f\x7f"
	args := get(0) + get(1) + get(2)
	return w.Build(w.Program{Pages: bulkPages, Funcs: []w.Func{
		{Params: three, Code: args + "\xfc\x0b\x00", Export: "fill"},
		{Params: three, Code: args + "\xfc\x0a\x00\x00", Export: "copy"},
		{Params: "\x7f", Results: "\x7f", Code: get(0) + "\x40\x00", Export: "grow"},
	}})
}

// Fills and copies in pieces do what the instructions do, to the byte: with lengths
// around a piece's, overlaps in both directions, and ranges that end at the memory's
// end or one beyond it, of which nothing may be written.
func TestFillsAndCopiesInPiecesEqualTheInstructions(t *testing.T) {
	const piece, size = 1 << 16, bulkPages << 16
	lengths := []uint64{0, 1, piece - 1, piece, piece + 1, 2 * piece, 3*piece + 5, size - 1, size, size + 1, 1 << 31, 1<<32 - 1}
	places := []uint64{0, 1, 100, piece, piece + 3, size - piece - 1, size - 1, size, size + 1, 1<<32 - 1}
	plain := instantiate(t, newRuntime(t, wazero.NewRuntimeConfig()), bulkGuest())
	metered := instantiate(t, newRuntime(t, wazero.NewRuntimeConfig()), rewrite(t, bulkGuest()))
	random := rand.NewChaCha8([32]byte{1})
	content := make([]byte, size)
	for _, n := range lengths {
		for _, d := range places {
			_, _ = random.Read(content)
			for _, m := range []api.Module{plain, metered} {
				require.True(t, m.Memory().Write(0, content))
			}
			same(t, plain, metered, "fill", d, 0xa5, n)
			for _, s := range places {
				same(t, plain, metered, "copy", d, s, n)
			}
		}
	}
}

func same(t *testing.T, plain, metered api.Module, f string, args ...uint64) {
	t.Helper()
	_, want := plain.ExportedFunction(f).Call(context.Background(), args...)
	_, got := metered.ExportedFunction(f).Call(context.Background(), args...)
	require.Equal(t, want == nil, got == nil, "%s %v: plain %v, metered %v", f, args, want, got)
	if want != nil {
		require.ErrorContains(t, got, "out of bounds memory access")
	}
	require.True(t, bytes.Equal(memoryView(plain), memoryView(metered)), "%s %v", f, args)
}

func memoryView(m api.Module) []byte {
	b, _ := m.Memory().Read(0, m.Memory().Size())
	return b
}

// No length makes the charge negative, which would be a gift of fuel.
func TestABulkLengthNeverRefundsFuel(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name string
		args []uint64
	}{
		{"grow", []uint64{0x0080_0000}}, {"grow", []uint64{1<<32 - 1}}, {"grow", []uint64{0x8000}},
		{"fill", []uint64{0, 0, 1<<32 - 1}}, {"copy", []uint64{0, 0, 1 << 31}},
	} {
		r := wazero.NewRuntime(ctx)
		yields := 0
		require.NoError(t, linkFixed(r, 100, &yields))
		m := instantiate(t, r, rewrite(t, bulkGuest()))
		for range 3 {
			_, _ = m.ExportedFunction(c.name).Call(ctx, c.args...)
		}
		before := yields
		_, err := m.ExportedFunction("fill").Call(ctx, 0, 0, 60_000)
		require.NoError(t, err)
		require.Greater(t, yields, before, "%v", c)
		require.NoError(t, r.Close(ctx))
	}
}
