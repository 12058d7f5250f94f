package guestbuild

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// Checks that fail at run time say why. A plugin is without WASI, as Rust's; with it the stack
// would be all the memory that a node gives by default.
var (
	zigFlags        = []string{"build-exe", "-O", "ReleaseSafe", "-fno-entry", "-rdynamic"}
	zigPluginFlags  = []string{"-target", "wasm32-freestanding"}
	zigReactorFlags = []string{"-target", "wasm32-wasi", "-mexec-model=reactor", "--stack", "1048576"}
)

// ZigPlugin returns main.zig in dir compiled as a plugin, with the module wasmnode, whose
// folder is sdk: as dir, a folder of the module, or an absolute one. Without a zig, which is
// $ZIG or the first on the PATH, the test is skipped: see [Missing].
func ZigPlugin(t testing.TB, dir, sdk string) []byte {
	t.Helper()
	return zig(t, "zig-plugin", dir, sdk, zigPluginFlags)
}

// ZigReactor returns the same compiled with WASI, for a plugin that reads files and the clock: a
// WASI reactor.
func ZigReactor(t testing.TB, dir, sdk string) []byte {
	t.Helper()
	return zig(t, "zig-reactor", dir, sdk, zigReactorFlags)
}

func zig(t testing.TB, kind, dir, sdk string, target []string) []byte {
	t.Helper()
	compiler := needZig(t)
	_, module, err := locate(sdk)
	if err != nil {
		t.Fatalf("guestbuild: %s: %v", sdk, err)
	}
	return once(t, kind, dir, func(_, dir, out string) error { return buildZig(compiler, target, module, dir, out) })
}

// buildZig builds elsewhere: the compiler leaves more than the file.
func buildZig(compiler string, target []string, module, dir, out string) error {
	tmp, err := os.MkdirTemp("", "guestbuild")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	built := filepath.Join(tmp, "plugin.wasm")
	err = run(exec.Command(compiler, slices.Concat(zigFlags, target, []string{
		"--dep", "wasmnode", "-Mroot=" + filepath.Join(dir, "main.zig"), "-Mwasmnode=" + filepath.Join(module, "wasmnode.zig"),
		"-femit-bin=" + built,
	})...))
	if err != nil {
		return err
	}
	wasm, err := os.ReadFile(built)
	if err != nil {
		return err
	}
	return os.WriteFile(out, wasm, 0o644)
}

func needZig(t testing.TB) string {
	t.Helper()
	for _, name := range []string{os.Getenv("ZIG"), "zig"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const advice = "no zig: install Zig 0.14 from https://ziglang.org/download/"
	Missing(t, advice)
	return ""
}
