package sdktest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

const assemblyScriptSDK = "../../sdk/assemblyscript"

// compileAssemblyScript returns a program that starts Node.js with a script, which runs what a
// source file compiles to, with others that it is compiled together with.
func compileAssemblyScript(t *testing.T, script, source string, others ...string) program {
	t.Helper()
	asc := needAsc(t)
	return compile(t, source, func(out string) *exec.Cmd {
		text := fmt.Sprintf("#!/bin/sh\nexec node '%s' '%s.wasm' \"$@\"\n", absolute(t, script), out)
		require.NoError(t, os.WriteFile(out, []byte(text), 0o700))
		return exec.Command(asc, append(append([]string{source}, others...), "-o", out+".wasm", "--debug",
			"--exportStart", "_initialize", "--use", "abort="+assemblyScriptSDK+"/host/abort")...)
	})
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	return path
}

// needAsc skips a test without the compiler that make toolchain installs, unless none may be
// missing.
func needAsc(t *testing.T) string {
	t.Helper()
	asc := absolute(t, "../../.cache/assemblyscript/node_modules/.bin/asc")
	if _, err := os.Stat(asc); err != nil {
		guestbuild.Missing(t, "no asc: make toolchain")
	}
	return asc
}

func echoInAssemblyScript(t *testing.T) program {
	t.Helper()
	return compileAssemblyScript(t, assemblyScriptSDK+"/testdata/echo.mjs", assemblyScriptSDK+"/testdata/echo.ts")
}

// What is tested here is what the folders of new plugins install.
func TestTheCompilerOfAssemblyScriptIsOneVersionEverywhere(t *testing.T) {
	type lock struct {
		Packages map[string]struct{ Version, Integrity, Resolved string }
	}
	read := func(file string) (l lock) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &l))
		return l
	}
	ours := read("../tools/assemblyscript/package-lock.json")
	require.Equal(t, ours, read("../../sdk/templates/assemblyscript/package-lock.json"))
	for name, p := range ours.Packages {
		require.Empty(t, p.Resolved, "%s has the address of a registry: npm install --omit-lockfile-registry-resolved", name)
	}
	readme, err := os.ReadFile(assemblyScriptSDK + "/README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), " assemblyscript@"+ours.Packages["node_modules/assemblyscript"].Version+"\n")
}

func TestARunOfTestsInAssemblyScriptTellsWhatFailed(t *testing.T) {
	tests := compileAssemblyScript(t, assemblyScriptSDK+"/test.mjs", assemblyScriptSDK+"/testdata/failing.ts", assemblyScriptSDK+"/test_host.ts")
	out, err := exec.Command(string(tests)).Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Regexp(t, `^FAIL  test_a_thing_is_another
      abort: got "a thing", want "another" in \S*test\.ts\(\d+:\d+\)
ok    test_a_thing_is_itself

2 tests, 1 failed
$`, string(out))
}

func TestTheExampleOfTheREADMEInAssemblyScriptIsAPlugin(t *testing.T) {
	asc := needAsc(t)
	readme, err := os.ReadFile(assemblyScriptSDK + "/README.md")
	require.NoError(t, err)
	_, code, _ := strings.Cut(string(readme), "```ts\n")
	code, _, found := strings.Cut(code, "```\n")
	require.True(t, found)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(absolute(t, assemblyScriptSDK), filepath.Join(dir, "sdk")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.ts"), []byte(code), 0o600))
	cmd := exec.Command(asc, "main.ts", "-o", "mine.wasm", "-O2s", "--debug", "--exportStart", "_initialize", "--use", "abort=sdk/host/abort")
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, string(text))
	require.Empty(t, string(text), "warnings")
}

func TestTheSDKForAssemblyScriptAndItsPluginsPassTheirTestsWithoutANode(t *testing.T) {
	const device = "../../guest-examples/devices/assemblyscript-example"
	for source, args := range map[string][]string{
		assemblyScriptSDK + "/testdata/test.ts":                       nil,
		"../../guest-examples/drivers/assemblyscript-minimal/test.ts": nil,

		device + "/test.ts": {"/devices=" + device + "/testdata"},
	} {
		tests := compileAssemblyScript(t, assemblyScriptSDK+"/test.mjs", source, assemblyScriptSDK+"/test_host.ts")
		require.Contains(t, string(tests.run(t, nil, args...)), " 0 failed\n")
	}
}
