package sandbox_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/wasmnode/wasmnode/internal/importtest"
	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/sandbox"
)

// The errors of WASI.
const (
	success     = 0
	badFile     = 8
	invalid     = 28
	nameTooLong = 37
)

// An argument just within its bound is not refused for it, and one beyond is.
func TestOneCallOfWASIIsBounded(t *testing.T) {
	const out, zeros, letters = 64, 1 << 16, 1 << 20
	for _, c := range []struct {
		function string
		args     []int64
		want     int32
	}{
		{"poll_oneoff", []int64{zeros, letters, 1024, out}, success},
		{"poll_oneoff", []int64{zeros, letters, 1025, out}, invalid},
		{"poll_oneoff", []int64{zeros, letters, 1<<32/48 + 1, out}, invalid}, // so many that their size wraps around
		{"fd_readdir", []int64{1, zeros, 64 << 10, 0, out}, badFile},
		{"fd_readdir", []int64{1, zeros, 64<<10 + 1, 0, out}, invalid},
		{"fd_renumber", []int64{1, 1<<31 - 1}, badFile},
		{"fd_write", []int64{1, zeros, 1024, out}, success},
		{"fd_write", []int64{1, zeros, 1 << 28, out}, success}, // as many as there may be are written
		{"fd_filestat_set_times", []int64{1, 0, 0, 1}, badFile},
		{"fd_filestat_set_times", []int64{77, 0, 0, 1}, badFile},
		{"path_open", []int64{3, 0, letters, 4096, 0, 0, 0, 0, out}, badFile},
		{"path_open", []int64{3, 0, letters, 4097, 0, 0, 0, 0, out}, nameTooLong},
		{"path_symlink", []int64{letters, 4097, 3, letters, 1}, nameTooLong},
		{"path_symlink", []int64{letters, 1, 3, letters, 4097}, nameTooLong},
		{"path_rename", []int64{3, letters, 1, 3, letters, 4097}, nameTooLong},
		{"path_link", []int64{3, 0, letters, 1, 3, letters, 4097}, nameTooLong},
	} {
		t.Run(fmt.Sprint(c.function, c.args), func(t *testing.T) {
			var function modtest.Import
			for _, i := range importtest.WASI(t) {
				if i.Name == c.function {
					function = i
				}
			}
			var body []byte
			for n, a := range c.args {
				if function.Type.Params[n] == modtest.I64 {
					body = append(body, modtest.I64Const(a)...)
				} else {
					body = append(body, modtest.I32Const(int32(a))...)
				}
			}
			m := &modtest.Module{Imports: []modtest.Import{function}, Pages: 32, Funcs: []modtest.Func{
				{Export: "run", Type: modtest.Operation, Body: append(body, modtest.Call(0)...)},
			}}
			compiled, err := compileIn(t.Context(), open(t, ""), m.Bytes(), sandbox.Options{MemoryMaxBytes: 4 << 20})
			require.NoError(t, err)
			defer func() { require.NoError(t, compiled.Close(t.Context())) }()
			i, err := compiled.Instantiate(t.Context(), wazero.NewModuleConfig())
			require.NoError(t, err)
			stack := []uint64{0}
			require.NoError(t, i.Call(t.Context(), i.ExportedFunction("run"), stack))
			require.Equal(t, c.want, int32(stack[0]))
			require.NoError(t, i.Close(t.Context()))
		})
	}
}
