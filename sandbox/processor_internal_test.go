package sandbox

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/sandbox/scan"
)

func TestNothingIsCompiledThatTheProcessorCannotRun(t *testing.T) {
	require.NoError(t, CheckProcessor())
	require.NoError(t, checkProcessor("arm64", false))
	require.ErrorIs(t, checkProcessor("amd64", false), ErrProcessor)

	scanned, err := scan.Read(scan.NewSource((&modtest.Module{Pages: 1}).Bytes()), scan.DefaultLimits())
	require.NoError(t, err)
	e, err := Open(Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	e.processor = checkProcessor("amd64", false)
	_, err = e.Compile(t.Context(), scanned, Options{MemoryMaxBytes: PageSize})
	require.EqualError(t, err, "compile: the processor has no SSE4.1, which compiled WebAssembly needs")
	require.ErrorIs(t, err, ErrProcessor)
}
