package guestbuild

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// assemblyScriptFlags keep the names of functions, for the stack of a fault.
var assemblyScriptFlags = []string{"-O2s", "--debug", "--exportStart", "_initialize"}

// AssemblyScriptPlugin returns main.ts in dir compiled as a plugin, with the SDK's folder sdk: as
// dir, a folder of the module, or an absolute one. Without the compiler the test is skipped:
// see [Missing].
func AssemblyScriptPlugin(t testing.TB, dir, sdk string) []byte {
	t.Helper()
	root, library, err := locate(sdk)
	if err != nil {
		t.Fatalf("guestbuild: %s: %v", sdk, err)
	}
	_, folder, err := locate(dir)
	if err != nil {
		t.Fatalf("guestbuild: %s: %v", dir, err)
	}
	asc := needAsc(t, root, folder)
	return once(t, "assemblyscript-plugin", dir, func(_, dir, out string) error {
		// The compiler names files by their path from the one that it begins with.
		library, err := filepath.Rel(dir, library)
		if err != nil {
			return err
		}
		cmd := exec.Command(asc, slices.Concat([]string{"main.ts", "-o", out}, assemblyScriptFlags,
			[]string{"--use", "abort=" + filepath.ToSlash(library) + "/host/abort"})...)
		cmd.Dir = dir
		return run(cmd)
	})
}

// needAsc returns the asc to use: $ASC, npm's in the plugin's folder or in the module, the one
// that this repository installs, or the first on the PATH.
func needAsc(t testing.TB, root, folder string) string {
	t.Helper()
	const npms = "node_modules/.bin/asc"
	for _, name := range []string{
		os.Getenv("ASC"), filepath.Join(folder, npms), filepath.Join(root, npms),
		filepath.Join(root, ".cache/assemblyscript", npms), "asc",
	} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const advice = "no asc: make toolchain, or npm install assemblyscript"
	Missing(t, advice)
	return ""
}
