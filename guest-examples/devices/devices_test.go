package devices_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// plugins are the folders of this one, but for what they share.
func plugins(t *testing.T) (names []string) {
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() && e.Name() != "internal" {
			names = append(names, e.Name())
		}
	}
	require.NotEmpty(t, names)
	return names
}

func TestEveryDevicePluginHasTheSameFilesAndAReadmeInOneForm(t *testing.T) {
	for _, name := range plugins(t) {
		t.Run(name, func(t *testing.T) {
			readme, err := os.ReadFile(filepath.Join(name, "README.md"))
			require.NoError(t, err)
			at := 0
			for _, heading := range []string{"# ", "## Use", "## Configuration", "## Needs", "## Limitations"} {
				i := strings.Index(string(readme)[at:], heading)
				require.GreaterOrEqual(t, i, 0, "%q is missing or out of order", heading)
				at += i + len(heading)
			}
			if _, err := os.Stat(filepath.Join(name, "main.go")); err != nil {
				return // it is in another language: its schema is in its code, its tests are those of example
			}
			for _, file := range []string{"main.go", "main_test.go", "plugin_schema.json"} {
				require.FileExists(t, filepath.Join(name, file))
			}
		})
	}
}

// build compiles a folder, whatever language it is in.
func build(t *testing.T, name string) []byte {
	folder := "guest-examples/devices/" + name
	switch name {
	case "assemblyscript-example":
		return guestbuild.AssemblyScriptPlugin(t, folder, "sdk/assemblyscript")
	case "c-example":
		return guestbuild.CReactor(t, folder)
	case "rust-example":
		return guestbuild.RustReactor(t, folder, "sdk/rust")
	case "zig-example":
		return guestbuild.ZigReactor(t, folder, "sdk/zig")
	default:
		return guestbuild.Plugin(t, folder)
	}
}

// A device plugin reads what it was granted and asks for nothing else; it may log.
func TestADevicePluginIsSmallAndImportsNoCapability(t *testing.T) {
	const maxSize = 3_000_000
	for _, name := range plugins(t) {
		t.Run(name, func(t *testing.T) {
			wasm := build(t, name)
			require.LessOrEqual(t, len(wasm), maxSize)
			ctx := context.Background()
			r := wazero.NewRuntime(ctx)
			defer func() { _ = r.Close(ctx) }()
			module, err := r.CompileModule(ctx, wasm)
			require.NoError(t, err)
			for _, f := range module.ImportedFunctions() {
				from, _, _ := f.Import()
				require.Contains(t, []string{abi.ModuleABI, abi.ModuleLog, abi.ModuleWASI}, from)
			}
		})
	}
}
