package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/pluginlock"
	"github.com/wasmnode/wasmnode/internal/pluginregistry/registrytest"
	"github.com/wasmnode/wasmnode/managers/catalog"
)

// TestAPluginIsPublishedAndInstalled has a running agent take what was installed, and the next
// version of it.
func TestAPluginIsPublishedAndInstalled(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	s, w, registry := newSite(t), newWorkshop(t, "mock"), registrytest.Start(t)
	ref := registry.Reference("drivers/mock", "1")
	push := func() string {
		r := w.run(t, "", "plugin", "push", "-plain-http", "mock.wasm", ref)
		require.Zero(t, r.code, r.stderr)
		require.Regexp(t, `^oci://`+registry.Address+`/drivers/mock@sha256:[0-9a-f]{64}\n$`, r.stdout)
		return strings.TrimSpace(r.stdout)
	}
	install := func(ref string) result {
		return w.run(t, "", "plugin", "install", "-plain-http", "-plugin-dir", s.plugins, ref)
	}
	first := push()
	wants(t, w.run(t, "", "plugin", "push", ref, ref), 1, `open oci:.*: no such file or directory`)
	wants(t, w.run(t, "", "plugin", "push", "-plain-http", write(t, filepath.Join(w.dir, "text.wasm"), "text"), ref), 1, `.*text\.wasm: scan: .*`)
	wants(t, w.run(t, "", "plugin", "install", "-plugin-dir", "none", ref), 1, `open none: no such file or directory`)
	wants(t, w.run(t, "", "plugin", "install", ref), 1, `where to\? Name the plugin directory with -plugin-dir`)

	n := s.start(t)
	require.Zero(t, w.run(t, "", "plugin", "lock", s.plugins).code)
	r := install(ref)
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, "From      = "+first+"\nSigned by = nobody\n")
	assert.Equal(t, "0.1.0", n.awaitPlugin(t, "mock_driver", catalog.StateHealthy).Version)

	write(t, filepath.Join(w.dir, "mock.wasm"), string(renamed(t, driver(t, "mock"), "0.1.0", "0.1.1")))
	second := push()
	assert.NotEqual(t, first, second)
	require.Zero(t, install(ref).code)
	require.Eventually(t, func() bool { return n.awaitPlugin(t, "mock_driver", catalog.StateHealthy).Version == "0.1.1" }, testTimeout, tick)
	lock, err := pluginlock.Read(s.plugins)
	require.NoError(t, err)
	require.Len(t, lock.Plugins, 1)
	assert.Equal(t, second, lock.Plugins[0].Source)

	// A plugin gives itself its name: one from elsewhere does not take the place of another unasked.
	stranger := registry.Reference("strangers/mock", "1")
	require.Zero(t, w.run(t, "", "plugin", "push", "-plain-http", "mock.wasm", stranger).code)
	wants(t, install(stranger), 1, `mock_driver\.wasm is there, and is not known to be from oci://`+registry.Address+`/strangers/mock: with -replace, .*`)
	for _, from := range []string{stranger, ref} {
		r = w.run(t, "", "plugin", "install", "-plain-http", "-replace", "-plugin-dir", s.plugins, from)
		require.Zero(t, r.code, r.stderr)
	}

	// Whatever fails, the directory is as it was.
	before := filesOf(t, s.plugins)
	registry.Instead(func(w http.ResponseWriter, r *http.Request) bool {
		blob := strings.Contains(r.URL.Path, "/blobs/")
		if blob {
			w.Header().Set("Content-Length", "3015525")
			_, _ = w.Write([]byte("cut"))
		}
		return blob
	})
	wants(t, install(first), 1, registry.Address+`: .*`)
	registry.Instead(nil)
	text := []byte("text")
	registry.PutBlob(registrytest.Digest(text), text)
	registry.Put("drivers/text", "1", []byte(`{"schemaVersion": 2, "config": {"mediaType": "application/vnd.wasm.config.v0+json"}, "layers": [
		{"mediaType": "application/wasm", "digest": "`+registrytest.Digest(text)+`", "size": 4}]}`))
	wants(t, install(registry.Reference("drivers/text", "1")), 1, `oci://.*/drivers/text:1: scan: .*`)
	wants(t, install(registry.Reference("drivers/none", "1")), 1, `oci://.*/drivers/none:1: there is no such plugin in the registry`)
	assert.Equal(t, before, filesOf(t, s.plugins))

	bundles(t, w, s.plugins)
	r = w.run(t, "", "plugin", "pull", "-plain-http", "-o", "pulled.wasm", first)
	require.Zero(t, r.code, r.stderr)
	assert.Equal(t, string(driver(t, "mock")), read(t, filepath.Join(w.dir, "pulled.wasm")))
	require.Zero(t, install(first).code)
	assert.NotEqual(t, before, filesOf(t, s.plugins), "what has failed before works")
}

// bundles carries a plugin directory to another, which has all of it or nothing.
func bundles(t *testing.T, w workshop, dir string) {
	t.Helper()
	r := w.run(t, "", "plugin", "bundle", "-o", "all.tar", dir)
	require.Zero(t, r.code, r.stderr)
	assert.Equal(t, "1 plugin in all.tar\n", r.stdout)
	first := read(t, filepath.Join(w.dir, "all.tar"))
	require.Zero(t, w.run(t, "", "plugin", "bundle", "-o", "all.tar", dir).code)
	assert.Equal(t, first, read(t, filepath.Join(w.dir, "all.tar")), "the same directory is the same bundle")

	other := t.TempDir()
	write(t, filepath.Join(w.dir, "cut.tar"), first[:len(first)/2])
	wants(t, w.run(t, "", "plugin", "install", "-plugin-dir", other, "cut.tar"), 1, `cut\.tar: mock_driver\.wasm: unexpected EOF`)
	assert.Empty(t, filesOf(t, other))
	r = w.run(t, "", "plugin", "install", "-plugin-dir", other, "all.tar")
	require.Zero(t, r.code, r.stderr)
	assert.Equal(t, filesOf(t, dir), filesOf(t, other))
	require.Zero(t, w.run(t, "", "plugin", "install", "-plugin-dir", other, "all.tar").code, "what is there already is put there again")
	foreign := t.TempDir()
	write(t, filepath.Join(foreign, "mock_driver.wasm"), "foreign")
	before := filesOf(t, foreign)
	wants(t, w.run(t, "", "plugin", "install", "-plugin-dir", foreign, "all.tar"), 1, `all\.tar: mock_driver\.wasm is there, and .*: with -replace, .*`)
	assert.Equal(t, before, filesOf(t, foreign))
	r = w.run(t, "", "plugin", "install", "-replace", "-plugin-dir", foreign, "all.tar")
	require.Zero(t, r.code, r.stderr)
	assert.NotEqual(t, before, filesOf(t, foreign))
	write(t, filepath.Join(other, "mock_driver.wasm"), "other")
	wants(t, w.run(t, "", "plugin", "bundle", other), 1, `.* differs from its lock, mock_driver\.wasm is changed: it has 5 bytes, the lock says \d+: see wasmnode plugin verify`)
	wants(t, w.run(t, "", "plugin", "bundle", t.TempDir()), 1, `.* has no lock: write it with: wasmnode plugin lock .*`)
}

// filesOf are the files of a directory, hidden ones included.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	all := map[string]string{}
	for _, e := range entries {
		all[e.Name()] = read(t, filepath.Join(dir, e.Name()))
	}
	return all
}
