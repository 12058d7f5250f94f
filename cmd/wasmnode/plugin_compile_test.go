package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/modtest"
)

// smallPlugin has all that a driver has to have, and does nothing.
func smallPlugin() []byte {
	m := modtest.Module{Pages: 1}
	for _, op := range abi.RequiredDriverOps {
		m.Funcs = append(m.Funcs, modtest.Func{Export: op, Type: modtest.Operation, Body: modtest.I32Const(0)})
	}
	return m.Bytes()
}

func TestPluginsAreCompiledAheadOfTime(t *testing.T) {
	w := newWorkshop(t, "mock")
	data := t.TempDir()
	code := filepath.Join(data, "cache")
	require.NoError(t, os.Symlink(filepath.Join(w.dir, "mock.wasm"), filepath.Join(data, "mock.wasm")))
	write(t, filepath.Join(data, "text.txt"), "no plugin")

	// The code of a module that does nothing: compiling one in Go takes seconds.
	small := filepath.Join(w.dir, "small.wasm")
	require.NoError(t, os.WriteFile(small, smallPlugin(), 0o600))
	r := w.run(t, "", "plugin", "compile", "-data-dir", data, small)
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, "1 plugin compiled, in "+code)
	kept, err := os.ReadDir(code)
	require.NoError(t, err)
	require.Len(t, kept, 1)
	before, err := os.Stat(filepath.Join(code, kept[0].Name(), "seal"))
	require.NoError(t, err)

	r = w.run(t, "", "plugin", "compile", "-json", "-data-dir", data, small)
	require.Zero(t, r.code, r.stderr)
	var all []struct{ File, Digest, Error string }
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &all))
	require.Len(t, all, 1)
	assert.Len(t, all[0].Digest, 64)
	again, err := os.Stat(filepath.Join(code, kept[0].Name(), "seal"))
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, again), "it is not compiled again")

	// The user's own cache, which has the code of the example: a directory is all its plugins.
	r = w.run(t, "", "plugin", "compile", data)
	require.Zero(t, r.code, r.stderr)
	assert.Regexp(t, `(?m)^`+filepath.Join(data, "mock.wasm")+` `, r.stdout)
	assert.NotContains(t, r.stdout, "text.txt")
}

func TestWhatCannotBeCompiledSaysWhy(t *testing.T) {
	w := newWorkshop(t)
	small := filepath.Join(w.dir, "small.wasm")
	require.NoError(t, os.WriteFile(small, smallPlugin(), 0o600))
	broken := write(t, filepath.Join(w.dir, "broken.wasm"), "nothing")
	empty, data := t.TempDir(), t.TempDir()
	require.NoError(t, os.Chmod(empty, 0o777))
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no file":         {[]string{filepath.Join(w.dir, "absent.wasm")}, "absent.wasm: no such file"},
		"no plugin in it": {[]string{empty}, "there is no plugin, a file called *.wasm, in it"},
		"no node's":       {[]string{"-data-dir", filepath.Join(w.dir, "absent"), small}, "absent: no such file"},
		"a file":          {[]string{"-data-dir", small, small}, "-data-dir: " + small + " is not a directory"},
		"others' to write": {[]string{"-data-dir", empty, small},
			empty + " can be written to by others (mode 0777), who could have this process run any code: chmod go-w " + empty},
		"one of two": {[]string{"-data-dir", data, broken, small}, "broken.wasm: scan: offset 0x0: not a WebAssembly module"},
		"no word":    {nil, "plugin compile"},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.run(t, "", append([]string{"plugin", "compile"}, c.args...)...)
			assert.Equal(t, 1, r.code, r.stdout)
			assert.Contains(t, r.stderr, c.says)
		})
	}
	kept, err := os.ReadDir(filepath.Join(data, "cache"))
	require.NoError(t, err)
	require.Len(t, kept, 1, "what is well is compiled all the same")
}
