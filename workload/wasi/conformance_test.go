package wasi_test

import (
	"context"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/wasi"
	"github.com/wasmnode/wasmnode/workload/workloadtest"
)

const megabyte = 1 << 20

func newRuntime(t testing.TB, cfg wasi.Config) *wasi.Runtime {
	t.Helper()
	t.TempDir() // the test's directory is then removed after all that writes in it has ended
	e, err := sandbox.Open(sandbox.Config{CacheDir: cacheDir})
	require.NoError(t, err)
	cfg.Engine, cfg.Logger = e, hclog.NewNullLogger()
	s := wasi.New(cfg)
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.NoError(t, s.Close(), "closing twice")
		require.NoError(t, e.Close(context.Background()))
	})
	return s
}

func TestRuntimeConforms(t *testing.T) {
	guest := guestbuild.Program(t, workloadtest.GuestPackage)
	workloadtest.Run(t, workloadtest.Fixture{
		New: func(t testing.TB) workload.Runtime { return newRuntime(t, wasi.Config{}) },
		Program: func(_ testing.TB, spec *workload.Spec, args ...string) {
			spec.WASI = &workload.WASIProgram{Name: "guest", Module: guest, Args: args}
		},
		Undeliverable:  "SIGHUP",
		MemoryMaxBytes: 32 * megabyte,
	})
}
