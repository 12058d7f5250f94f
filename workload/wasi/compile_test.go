package wasi_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sandbox/wasmbin/wasmtest"
	"github.com/wasmnode/wasmnode/workload/wasi"
)

// slowProgram takes the engine half a minute to compile: it changes locals in nested loops.
func slowProgram() []byte {
	open, closing := "", ""
	for i := range 200 {
		local := wasmtest.U32(1 + i)
		open += "\x03\x40\x20" + local + "\x20\x00\x6a\x21" + local
		closing += "\x20\x00\x0d\x00\x0b"
	}
	funcs := []wasmtest.Func{{Export: "_start"}}
	for range 20 {
		funcs = append(funcs, wasmtest.Func{Params: "\x7f", Locals: []string{wasmtest.U32(200) + "\x7f"}, Code: open + closing})
	}
	return wasmtest.Build(wasmtest.Program{Pages: 1, Funcs: funcs})
}

// A compile ends with the runtime that wants it, so that it does not hold up its end.
func TestClosingEndsACompile(t *testing.T) {
	dir := t.TempDir()
	e, err := sandbox.Open(sandbox.Config{CacheDir: dir})
	require.NoError(t, err)
	s := wasi.New(wasi.Config{Engine: e, Logger: hclog.NewNullLogger()})
	ended := make(chan error)
	go func() { ended <- s.Start(context.Background(), spec("a", slowProgram())) }()
	begun := func() bool {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		return len(entries) > 0
	}
	require.Eventually(t, begun, time.Minute, time.Millisecond)
	require.NoError(t, s.Close())
	require.ErrorContains(t, <-ended, "shut")
	require.False(t, begun(), "the code is there: the compile went on to its end")
	require.NoError(t, e.Close(context.Background()))
}
