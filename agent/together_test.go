package agent

import (
	"context"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/workloadtest"
)

func TestAnAgentsOwnWorkloadsStandBesideOneAnotherAsASupervisorsDo(t *testing.T) {
	guest := guestbuild.Program(t, workloadtest.GuestPackage)
	cache := t.TempDir()
	workloadtest.RunBeside(t, workloadtest.Fixture{
		New: func(t testing.TB) workload.Runtime {
			e, err := sandbox.Open(sandbox.Config{CacheDir: cache})
			require.NoError(t, err)
			own, closeOwn, err := workloadsOn(e, t.TempDir(), nil, nil, hclog.NewNullLogger())
			require.NoError(t, err)
			t.Cleanup(func() {
				require.NoError(t, closeOwn())
				require.NoError(t, e.Close(context.Background()))
			})
			return &together{Runtime: own}
		},
		Program: func(_ testing.TB, spec *workload.Spec, args ...string) {
			spec.WASI = &workload.WASIProgram{Name: "guest", Module: guest, Args: args}
		},
		MemoryMaxBytes: 32 << 20,
	}, false)
}
