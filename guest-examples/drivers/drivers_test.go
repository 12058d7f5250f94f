package drivers_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

func TestTheExampleInTheABIsPageIsADriver(t *testing.T) {
	source, err := os.ReadFile("testdata/by-hand/main.c")
	require.NoError(t, err)
	page, err := os.ReadFile("../../abi/ABI.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "```c\n"+string(source)+"```\n")
}

// Whoever has read one example finds their way in all of them.
func TestEveryDriverHasTheSameFilesAndAReadmeInOneForm(t *testing.T) {
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, e := range entries {
		if !e.IsDir() || e.Name() == "testdata" {
			continue
		}
		t.Run(e.Name(), func(t *testing.T) {
			readme, err := os.ReadFile(filepath.Join(e.Name(), "README.md"))
			require.NoError(t, err)
			at := 0
			for _, heading := range []string{"# ", "## Use", "## Configuration", "## Needs", "## Limitations"} {
				i := strings.Index(string(readme)[at:], heading)
				require.GreaterOrEqual(t, i, 0, "%q is missing or out of order", heading)
				at += i + len(heading)
			}
			if _, err := os.Stat(filepath.Join(e.Name(), "main.go")); err != nil {
				return // it is in another language: its schemas are in its code, its tests beside this one
			}
			main, err := os.ReadFile(filepath.Join(e.Name(), "main.go"))
			require.NoError(t, err)
			files := []string{"main_test.go"}
			if !strings.Contains(string(main), "config.For(") {
				files = append(files, "plugin_schema.json", "task_schema.json")
			}
			for _, name := range files {
				require.FileExists(t, filepath.Join(e.Name(), name))
			}
		})
	}
}

// What a plugin imports is what it can ask for; what it does not use is not there.
func TestAPluginIsSmallAndImportsWhatItUses(t *testing.T) {
	const maxSize = 3_250_000 // of one that reads files
	for name, c := range map[string]struct {
		wasm []byte
		want []string
	}{
		"assemblyscript": {buildAssemblyScript(t), []string{abi.ModuleABI, abi.ModuleLog, abi.ModuleWasm}},

		"wasi":       {guestbuild.Plugin(t, "guest-examples/drivers/wasi"), []string{abi.ModuleABI, abi.ModuleWasm, abi.ModuleWASI}},
		"raw_exec":   {guestbuild.Plugin(t, "guest-examples/drivers/raw_exec"), []string{abi.ModuleABI, abi.ModuleProcess, abi.ModuleWASI}},
		"exec":       {guestbuild.Plugin(t, "guest-examples/drivers/exec"), []string{abi.ModuleABI, abi.ModuleProcess, abi.ModuleWASI}},
		"java":       {guestbuild.Plugin(t, "guest-examples/drivers/java"), []string{abi.ModuleABI, abi.ModuleProcess, abi.ModuleWASI}},
		"mock":       {guestbuild.Plugin(t, "guest-examples/drivers/mock"), []string{abi.ModuleABI, abi.ModuleLog, abi.ModuleTask, abi.ModuleWASI}},
		"docker":     {guestbuild.Plugin(t, "guest-examples/drivers/docker"), []string{abi.ModuleABI, abi.ModuleLog, abi.ModuleTask, abi.ModuleHTTP, abi.ModuleStream, abi.ModuleKV, abi.ModuleExec, abi.ModuleProcess, abi.ModuleWASI}},
		"containerd": {guestbuild.Plugin(t, "guest-examples/drivers/containerd"), []string{abi.ModuleABI, abi.ModuleTask, abi.ModuleNet, abi.ModuleStream, abi.ModuleExec, abi.ModuleWASI}},
		"qemu":       {guestbuild.Plugin(t, "guest-examples/drivers/qemu"), []string{abi.ModuleABI, abi.ModuleProcess, abi.ModuleNet, abi.ModuleStream, abi.ModuleTask, abi.ModuleWASI}},
		"c":          {guestbuild.CPlugin(t, "guest-examples/drivers/c-minimal"), []string{abi.ModuleABI, abi.ModuleWasm}},
		"rust":       {buildRust(t), []string{abi.ModuleABI, abi.ModuleLog, abi.ModuleWasm}},
		"zig":        {buildZig(t), []string{abi.ModuleABI, abi.ModuleLog, abi.ModuleWasm}},
	} {
		t.Run(name, func(t *testing.T) {
			switch name {
			case "docker":
				require.LessOrEqual(t, len(c.wasm), 4_750_000, "it has URLs and times to read, commands with streams, networks, archives and helpers that know passwords")
			case "containerd":
				require.LessOrEqual(t, len(c.wasm), 5_000_000, "it has package net, HTTP/2, and commands with streams")
			case "qemu":
				require.LessOrEqual(t, len(c.wasm), 3_900_000, "it has package net, and JSON of two monitors")
			default:
				require.LessOrEqual(t, len(c.wasm), maxSize)
			}
			ctx := context.Background()
			r := wazero.NewRuntime(ctx)
			defer func() { _ = r.Close(ctx) }()
			module, err := r.CompileModule(ctx, c.wasm)
			require.NoError(t, err)
			imports := make(map[string]bool)
			for _, f := range module.ImportedFunctions() {
				from, _, _ := f.Import()
				imports[from] = true
			}
			require.ElementsMatch(t, c.want, slices.Collect(maps.Keys(imports)))
		})
	}
}
