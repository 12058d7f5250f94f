package guestbuild_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/wasmnode/wasmnode/internal/guestbuild"
)

func TestAPluginIsAReactorThatExportsItsFunctions(t *testing.T) {
	ctx := context.Background()
	for name, wasm := range map[string][]byte{
		"go": guestbuild.Plugin(t, "internal/guestbuild/testdata/plugin"),
		"c":  guestbuild.CPlugin(t, "internal/guestbuild/testdata/c-plugin"),
	} {
		t.Run(name, func(t *testing.T) {
			r := wazero.NewRuntime(ctx)
			defer func() { _ = r.Close(ctx) }()
			wasi_snapshot_preview1.MustInstantiate(ctx, r)
			m, err := r.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
			require.NoError(t, err)
			require.Nil(t, m.ExportedFunction("_start"))
			got, err := m.ExportedFunction("double").Call(ctx, 21)
			require.NoError(t, err)
			require.Equal(t, uint64(42), got[0])
		})
	}
}

func TestAProgramIsAWASICommand(t *testing.T) {
	ctx := context.Background()
	r := wazero.NewRuntime(ctx)
	defer func() { _ = r.Close(ctx) }()
	for name, wasm := range map[string][]byte{
		"go": guestbuild.Program(t, "internal/guestbuild/testdata/program"),
		"c":  guestbuild.CProgram(t, "internal/guestbuild/testdata/c-program"),
	} {
		c, err := r.CompileModule(ctx, wasm)
		require.NoError(t, err, name)
		require.Contains(t, c.ExportedFunctions(), "_start", name)
	}
}

func TestABuildIsDoneOnceAndNeverShared(t *testing.T) {
	const dir = "internal/guestbuild/testdata/plugin"
	first := guestbuild.Plugin(t, dir)
	first[0] = 'x'
	second := guestbuild.Plugin(t, dir)
	require.Equal(t, []byte("\x00asm"), second[:4], "a test that spoils its module must not spoil another's")
}
