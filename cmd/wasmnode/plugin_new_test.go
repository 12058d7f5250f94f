package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/pluginregistry/registrytest"
	"github.com/wasmnode/wasmnode/internal/toolchain"
	"github.com/wasmnode/wasmnode/sdk"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// make runs a target in a folder of the workshop, and reports whether it was made.
func (w workshop) make(t *testing.T, dir, target string) bool {
	t.Helper()
	return execute(t, exec.Command("make", "-s", "-C", filepath.Join(w.dir, dir), target)).code == 0
}

// TestANewPluginIsBuiltTestedAndChecked holds the templates of each language: what is made of
// them compiles, passes its own tests, does what the contract says, and runs its job.
func TestANewPluginIsBuiltTestedAndChecked(t *testing.T) {
	// What the SDK compiles to is the same in every folder, and is kept where Go keeps the rest.
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	t.Setenv("GOCACHE", strings.TrimSpace(string(cache)))
	t.Setenv("GOFLAGS", "-trimpath -buildvcs=false")
	user, err := os.UserCacheDir()
	require.NoError(t, err)
	t.Setenv("ZIG_GLOBAL_CACHE_DIR", filepath.Join(user, "zig")) // of the tests
	w := newWorkshop(t)
	var built, devices []string
	for _, language := range []string{"assemblyscript", "c", "go", "rust", "zig"} {
		t.Run(language, func(t *testing.T) {
			driver, device := language+"_driver", language+"-device"
			r := w.run(t, "", "plugin", "new", "-lang", language, driver)
			require.Zero(t, r.code, r.stderr)
			inCode := language == "go" // is where the schema is
			assert.Equal(t, !inCode, strings.Contains(r.stdout, driver+"/task_schema.json\n"))
			r = w.run(t, "", "plugin", "new", "-json", "-lang", language, "-device", device)
			require.Zero(t, r.code, r.stderr)
			var made struct{ Files, Next []string }
			require.NoError(t, json.Unmarshal([]byte(r.stdout), &made))
			assert.Equal(t, !inCode, slices.Contains(made.Files, "plugin_schema.json"))

			if !w.make(t, driver, "toolchain") {
				guestbuild.Missing(t, "there is no toolchain for "+language)
			}
			if language == "zig" { // its library is the same one as well
				shareCache(t, filepath.Join(w.dir, driver))
				shareCache(t, filepath.Join(w.dir, device))
			}
			r = w.run(t, "", "plugin", "test", driver)
			require.Zero(t, r.code, r.stdout+r.stderr)
			assert.Contains(t, r.stdout, "\n5 tests: 5 ok, 0 failed\n")
			assert.Regexp(t, `\n`+driver+` 0\.1\.0: \d\d ok, 0 failed, 1 skipped\n$`, r.stdout)
			if language == "rust" { // the SDK is the same one: it is compiled once
				require.NoError(t, os.CopyFS(filepath.Join(w.dir, device, "build"), os.DirFS(filepath.Join(w.dir, driver, "build"))))
				require.NoError(t, os.Remove(filepath.Join(w.dir, device, "build", "test")))
			}
			if language == "assemblyscript" { // likewise the compiler
				t.Setenv("ASC", filepath.Join(w.dir, driver, "node_modules", ".bin", "asc"))
			}
			r = w.run(t, "", "plugin", "test", "-json", device)
			require.Zero(t, r.code, r.stdout+r.stderr)
			var out tested
			require.NoError(t, json.Unmarshal([]byte(r.stdout), &out))
			assert.Equal(t, device+"/plugins/"+device+".wasm", out.File)
			assert.Empty(t, out.Failed)
			assert.Len(t, out.Tests, 3)
			assert.Equal(t, device, out.Conform.Plugin)
			built, devices = append(built, driver), append(devices, device)
		})
	}
	// The job of a device plugin is about no language.
	t.Run("jobs", func(t *testing.T) { w.runs(t, append(built, devices[:min(1, len(devices))]...)) })
}

// shareCache has a new plugin in Zig compiled with the library that another test has compiled: that is
// known by no path of the folder.
func shareCache(t *testing.T, folder string) {
	t.Helper()
	user, err := os.UserCacheDir()
	require.NoError(t, err)
	shared := filepath.Join(user, "wasmnode", "zig")
	require.NoError(t, os.MkdirAll(shared, 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "build"), 0o755))
	require.NoError(t, os.Symlink(shared, filepath.Join(folder, "build", "cache")))
}

// runs runs the jobs of new plugins, all at once on one agent, with the configurations that their
// folders have.
func (w workshop) runs(t *testing.T, names []string) {
	t.Helper()
	plugins := filepath.Join(w.dir, "plugins")
	require.NoError(t, os.Mkdir(plugins, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "raw_exec.wasm"), driver(t, "raw_exec"), 0o600)) // for devices
	args := []string{"agent", "-http-addr", "127.0.0.1:0", "-dev", "-plugin-dir", plugins}
	for _, name := range names {
		require.NoError(t, os.Link(filepath.Join(w.dir, name, "plugins", name+".wasm"), filepath.Join(plugins, name+".wasm")))
		args = append(args, "-config", filepath.Join(w.dir, name, "agent.hcl"))
	}
	agent := exec.Command(binary, args...)
	agent.Env = append(os.Environ(), "XDG_CACHE_HOME="+w.dir)
	n := startProcess(t, agent)
	t.Cleanup(func() { n.signal(t, syscall.SIGTERM) }) // it removes what it has made, and unmounts that
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n.out(t, "job", "run", filepath.Join(w.dir, name, "job.nomad.hcl"))
			assert.Regexp(t, `^(Hello, world, from hello|My devices: (one|two|three))\n$`, n.out(t, "alloc", "logs", "-job", name))
			n.out(t, "job", "stop", "-purge", name)
		})
	}
}

// What can be made can be looked for.
func TestThereIsAToolchainToLookForInEachLanguage(t *testing.T) {
	assert.Equal(t, sdk.Languages(), toolchain.Languages())
	assert.ElementsMatch(t, sdk.Languages(), slices.Collect(maps.Keys(sources)))
}

func TestANewPluginThatCannotBeMadeSaysWhatToDo(t *testing.T) {
	w := newWorkshop(t)
	require.NoError(t, os.Mkdir(filepath.Join(w.dir, "there"), 0o700))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"a"}, `in which language\? Add -lang=LANGUAGE, one of assemblyscript, c, go, rust, zig`},
		{[]string{"-lang", "cobol", "a"}, `there is no template for "cobol": take one of assemblyscript, c, go, rust, zig`},
		{[]string{"-lang", "go", "../a"}, `"\.\./a" is no name for a plugin: take a letter, then .*`},
		{[]string{"-lang", "go", "there"}, `there: file already exists: take another name, or remove it`},
	} {
		wants(t, w.run(t, "", append([]string{"plugin", "new"}, c.args...)...), 1, c.want)
	}
	assert.Equal(t, []string{"there", "wasmnode"}, names(t, w.dir))
}

// names are those of what is in a folder.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestAPluginsFolderThatFailsSaysAtWhat(t *testing.T) {
	w := newWorkshop(t)
	folder := filepath.Join(w.dir, "mine")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "plugins"), 0o700))
	wants(t, w.run(t, "", "plugin", "test", "mine"), 1, `stat mine/Makefile: no such file or directory: wasmnode plugin new makes a folder with one`)

	makefile := func(build, test string) {
		write(t, filepath.Join(folder, "Makefile"), "build:\n\t@"+build+"\ntest:\n\t@"+test+"\n")
	}
	for _, c := range []struct{ build, test, step, why string }{
		{"false", "true", "build", `make build failed in mine: see above\. If a compiler is missing or too old: wasmnode plugin doctor`},
		{"echo 'go: x: Get \"https://y\": dial tcp: lookup y: no such host'; false", "true", "build", `make build failed: what it needs could not be downloaded\. .*: cd mine && go mod download all`},
		{"echo 'npm error code ENOTFOUND'; false", "true", "build", `make build failed: what it needs could not be downloaded\. .*: cd mine && npm ci --ignore-scripts`},
		{"true", "true", "build", `make build has left no \.wasm file in mine/plugins`},
		{"touch plugins/a.wasm", "false", "test", `make test failed in mine: see above\. If a compiler is missing or too old: wasmnode plugin doctor`},
		{"true", "true", "conform", `1 checks of the contract failed`},
		{"touch plugins/b.wasm", "true", "build", `which of mine/plugins/a\.wasm, mine/plugins/b\.wasm is to be tested\? .*`},
	} {
		makefile(c.build, c.test)
		r := w.run(t, "", "plugin", "test", "mine")
		assert.Equal(t, 1, r.code)
		lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
		assert.Regexp(t, "^Error: "+c.why+"$", lines[len(lines)-1])

		r = w.run(t, "", "plugin", "test", "-json", "mine")
		var out tested
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &out), r.stdout)
		assert.Equal(t, 1, r.code)
		assert.Equal(t, c.step, out.Failed)
		assert.Regexp(t, "^"+c.why+"$", out.Why)
	}
}

func TestABuildWithAnOldCompilerSaysWhatToType(t *testing.T) {
	programs, folder := t.TempDir(), t.TempDir()
	write(t, filepath.Join(folder, sources["go"]), "package main\n")
	t.Setenv("PATH", programs)
	for version, want := range map[string]string{
		"go1.21.0": "go, version 1.21.0: it has to be 1.24 or newer, or may download one: export GOTOOLCHAIN=auto",
		"go1.24.0": "If a compiler is missing or too old: wasmnode plugin doctor -lang go",
	} {
		program := filepath.Join(programs, "go")
		require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho "+version+"\n"), 0o700))
		assert.Equal(t, want, strings.TrimPrefix(compilerAdvice(folder), programs+"/"))
	}
}

// TestTheSameSourceIsTheSamePluginWhereverItIsBuilt builds new plugins in two folders, one of
// which is in a repository and has another name.
func TestTheSameSourceIsTheSamePluginWhereverItIsBuilt(t *testing.T) {
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	t.Setenv("GOCACHE", strings.TrimSpace(string(cache)))
	t.Setenv("GOFLAGS", "")
	for _, language := range []string{"assemblyscript", "c", "go", "rust", "zig"} {
		t.Run(language, func(t *testing.T) {
			built := map[string]string{}
			for _, place := range []string{"a", filepath.Join("somewhere", "else entirely")} {
				w := newWorkshop(t)
				folder := filepath.Join(w.dir, place)
				require.NoError(t, os.MkdirAll(folder, 0o700))
				if place != "a" {
					require.NoError(t, exec.Command("git", "init", "-q", folder).Run())
				}
				cmd := exec.Command(binary, "plugin", "new", "-lang", language, "my_driver")
				cmd.Dir = folder
				require.Zero(t, execute(t, cmd).code)
				here := filepath.Join(place, "my_driver")
				if !w.make(t, here, "toolchain") {
					guestbuild.Missing(t, "there is no toolchain for "+language)
				}
				if language == "zig" {
					shareCache(t, filepath.Join(w.dir, here))
				}
				require.True(t, w.make(t, here, "build"))
				wasm := read(t, filepath.Join(w.dir, here, "plugins", "my_driver.wasm"))
				assert.False(t, strings.Contains(wasm, w.dir), "a path of the machine is in it")
				built[registrytest.Digest([]byte(wasm))] = place
			}
			assert.Len(t, built, 1)
		})
	}
}
