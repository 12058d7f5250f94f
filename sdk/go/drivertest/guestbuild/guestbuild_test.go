package guestbuild_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
)

func TestAPluginIsAReactorThatExportsItsFunctions(t *testing.T) {
	ctx := context.Background()
	for name, wasm := range map[string][]byte{
		"go": guestbuild.Plugin(t, "drivertest/guestbuild/testdata/plugin"),
		"c":  guestbuild.CPlugin(t, "drivertest/guestbuild/testdata/c-plugin"),
	} {
		t.Run(name, func(t *testing.T) {
			r := wazero.NewRuntime(ctx)
			defer func() { _ = r.Close(ctx) }()
			wasi_snapshot_preview1.MustInstantiate(ctx, r)
			m, err := r.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
			expect.NoError(t, err)
			expect.True(t, m.ExportedFunction("_start") == nil)
			got, err := m.ExportedFunction("double").Call(ctx, 21)
			expect.NoError(t, err)
			expect.Equal(t, got[0], uint64(42))
		})
	}
}

func TestAProgramIsAWASICommand(t *testing.T) {
	ctx := context.Background()
	r := wazero.NewRuntime(ctx)
	defer func() { _ = r.Close(ctx) }()
	for name, wasm := range map[string][]byte{
		"go": guestbuild.Program(t, "drivertest/guestbuild/testdata/program"),
		"c":  guestbuild.CProgram(t, "drivertest/guestbuild/testdata/c-program"),
	} {
		c, err := r.CompileModule(ctx, wasm)
		expect.NoError(t, err)
		_, command := c.ExportedFunctions()["_start"]
		expect.True(t, command, name)
	}
}

func TestABuildIsDoneOnceAndNeverShared(t *testing.T) {
	const dir = "drivertest/guestbuild/testdata/plugin"
	first := guestbuild.Plugin(t, dir)
	first[0] = 'x'
	second := guestbuild.Plugin(t, dir)
	expect.Equal(t, second[:4], []byte("\x00asm"), "a test that spoils its module must not spoil another's")
}

func TestADirectoryIsTheTestsOwnOrTheModules(t *testing.T) {
	fromRoot := guestbuild.Program(t, "drivertest/guestbuild/testdata/program")
	expect.Equal(t, guestbuild.Program(t, "./testdata/program"), fromRoot)
	absolute, err := filepath.Abs("testdata/program")
	expect.NoError(t, err)
	expect.Equal(t, guestbuild.Program(t, absolute), fromRoot)
}

func TestAnAuthorsModuleIsBuiltUnchanged(t *testing.T) {
	t.Setenv("GOWORK", "off")
	for _, answer := range []string{"one", "two"} {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"go.mod":  "module example.com/author\n\ngo 1.24.0\n",
			"main.go": "package main\n\nfunc main() { println(\"the answer is " + answer + "\") }\n",
		} {
			expect.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		t.Chdir(dir)
		expect.True(t, bytes.Contains(guestbuild.Program(t, "."), []byte("the answer is "+answer)))
	}
}
