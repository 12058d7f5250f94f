package sandbox

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/sandbox/scan"
	"github.com/wasmnode/wasmnode/sandbox/sourceline"
	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
)

func TestLinesAreForModulesWithinBounds(t *testing.T) {
	with := func(lines, code, size int) *scan.Module {
		wasm, err := wasmbin.SetCustom(new(modtest.Module).Bytes(), ".debug_line", make([]byte, lines))
		require.NoError(t, err)
		m, err := scan.Read(scan.NewSource(wasm), scan.DefaultLimits())
		require.NoError(t, err)
		m.Code.Bytes, m.Size = code, size
		return m
	}
	for _, c := range []struct {
		lines, code, size int
		want              bool
	}{
		{1, 1, 1, true},
		{0, 1, 1, false},
		{sourceline.MaxTables, 1 << 20, 16 << 20, true},
		{sourceline.MaxTables + 1, 1, 1, false},
		{1, 1<<20 + 1, 1, false},
		{1, 1, 16<<20 + 1, false},
	} {
		require.Equal(t, c.want, hasLines(with(c.lines, c.code, c.size)), "%+v", c)
	}
}

func TestPlacesInAStackAreOfTheFrameAboveThem(t *testing.T) {
	stack := errors.New("wasm error: unreachable\nwasm stack trace:\n\t0x1: code:1\n\t.f()\n\t\t0x10: code:1\n\twasmnode:meter/v1.yield() i32\n\t.0x10: code:1()\n\t.g()")
	m := &Module{}
	require.Equal(t, []Frame{{Func: "0x1: code:1"}, {Func: ".f()"}, {Func: ".0x10: code:1()"}, {Func: ".g()"}}, m.Frames(stack, 4))
	require.Len(t, m.Frames(stack, 3), 3)
	require.Empty(t, m.Frames(errors.New(strings.Repeat("x", 10)), 3))
	for _, text := range []string{"0x: code:1", "0x100000000: code:1", "10: code:1", "0x10: code:2", "0x10"} {
		_, is := placeIn(text)
		require.False(t, is, text)
	}
	offset, is := placeIn("0xffffffff: code:1")
	require.True(t, is)
	require.Equal(t, uint32(0xffffffff), offset)
}
