package guestbuild

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rustTarget has no WASI: a plugin imports what it names and nothing else.
const rustTarget = "wasm32-unknown-unknown"

// rustReactorTargets have WASI, by the names that older and newer compilers know it by.
var rustReactorTargets = []string{"wasm32-wasi", "wasm32-wasip1"}

var rustFlags = []string{"--edition", "2021", "-C", "opt-level=s", "-C", "panic=abort", "-D", "warnings"}

// RustPlugin returns main.rs in dir compiled as a plugin, with the crate wasmnode, whose
// folder is sdk: as dir, a folder of the module, or an absolute one. It needs no cargo.
// Without a rustc that has the target the test is skipped: see [Missing].
func RustPlugin(t testing.TB, dir, sdk string) []byte {
	t.Helper()
	return rust(t, "rust-plugin", dir, sdk, rustTarget)
}

// RustReactor returns the same compiled with WASI, for a plugin that reads files and the clock: a
// WASI reactor.
func RustReactor(t testing.TB, dir, sdk string) []byte {
	t.Helper()
	return rust(t, "rust-reactor", dir, sdk, rustReactorTargets...)
}

func rust(t testing.TB, kind, dir, sdk string, targets ...string) []byte {
	t.Helper()
	rustc, target := needRustc(t, targets)
	_, crate, err := locate(sdk)
	if err != nil {
		t.Fatalf("guestbuild: %s: %v", sdk, err)
	}
	return once(t, kind, dir, func(_, dir, out string) error { return buildRust(rustc, target, crate, dir, out) })
}

func buildRust(rustc, target, crate, dir, out string) error {
	tmp, err := os.MkdirTemp("", "guestbuild")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	library := filepath.Join(tmp, "libwasmnode.rlib")
	// The file says nothing of the machine, and is the same on each.
	flags := slices.Concat(rustFlags, []string{"--target", target, "--remap-path-prefix", crate + "=wasmnode", "--remap-path-prefix", dir + "=."})
	err = run(exec.Command(rustc, slices.Concat(flags, []string{
		"--crate-type", "rlib", "--crate-name", "wasmnode", "-o", library, filepath.Join(crate, "src", "lib.rs"),
	})...))
	if err != nil {
		return err
	}
	return run(exec.Command(rustc, slices.Concat(flags, []string{
		"--crate-type", "cdylib", "--crate-name", "plugin", "-C", "strip=debuginfo", "--extern", "wasmnode=" + library,
		"-o", out, filepath.Join(dir, "main.rs"),
	})...))
}

// needRustc returns the rustc to use: $RUSTC, Debian's, or the first on the PATH, of those
// that have one of the targets, and which.
func needRustc(t testing.TB, targets []string) (rustc, target string) {
	t.Helper()
	for _, name := range []string{os.Getenv("RUSTC"), "/usr/bin/rustc", "rustc"} {
		if name == "" {
			continue
		}
		for _, target := range targets {
			dir, err := exec.Command(name, "--print", "target-libdir", "--target", target).Output()
			if err != nil {
				continue
			}
			if _, err := os.Stat(strings.TrimSpace(string(dir))); err == nil {
				return name, target
			}
		}
	}
	advice := "no rustc for " + targets[0] + ": apt install rustc libstd-rust-dev-wasm32"
	Missing(t, advice)
	return "", ""
}
