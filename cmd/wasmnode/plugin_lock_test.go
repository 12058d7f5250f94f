package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/pluginlock"
	"github.com/wasmnode/wasmnode/managers/catalog"
)

// TestADirectoryIsLockedAndComparedWithIt has an agent refuse what is not in the lock.
func TestADirectoryIsLockedAndComparedWithIt(t *testing.T) {
	s := newSite(t)
	w := newWorkshop(t)
	lock := func() result { return w.run(t, "", "plugin", "lock", s.plugins) }
	verify := func() result { return w.run(t, "", "plugin", "verify", s.plugins) }
	wants(t, verify(), 1, ".* has no lock: write it with: wasmnode plugin lock "+s.plugins)

	s.drop(t, "mock_driver.wasm", driver(t, "mock"))
	r := lock()
	require.Zero(t, r.code, r.stderr)
	assert.Regexp(t, `(?m)^mock_driver\.wasm  mock_driver  0\.1\.0 +[0-9a-f]{8}  \d+$`, r.stdout)
	written := read(t, filepath.Join(s.plugins, pluginlock.FileName))
	assert.Equal(t, "1 plugin as the lock says\n", verify().stdout)

	n := s.start(t)
	n.awaitPlugin(t, "mock_driver", catalog.StateHealthy)
	s.drop(t, "raw_exec.wasm", driver(t, "raw_exec"))
	require.Eventually(t, func() bool { return len(n.plugins(t)) == 2 && n.plugins(t)[1].State == catalog.StateRejected }, testTimeout, tick)
	assert.Contains(t, n.out(t, "plugin", "status"), "raw_exec.wasm: it is not in plugins.lock: remove it, or have it in: wasmnode plugin lock\n")
	r = verify()
	assert.Equal(t, 1, r.code)
	assert.Equal(t, "raw_exec.wasm: not in the lock\n", r.stdout)
	require.Zero(t, lock().code)
	n.awaitPlugin(t, "raw_exec", catalog.StateUnhealthy) // it is granted nothing

	// What is no plugin is not locked, and what was written stays.
	s.drop(t, "text.wasm", []byte("text"))
	wants(t, lock(), 1, `.*/text\.wasm: scan: .*`)
	require.NoError(t, os.Remove(filepath.Join(s.plugins, "text.wasm")))
	require.NoError(t, os.Remove(filepath.Join(s.plugins, "raw_exec.wasm")))
	assert.Equal(t, "raw_exec.wasm: missing\n", verify().stdout)
	require.Zero(t, lock().code)
	assert.Equal(t, written, read(t, filepath.Join(s.plugins, pluginlock.FileName)))
	wants(t, w.run(t, "", "plugin", "lock", filepath.Join(s.plugins, "none")), 1, `open .*/none: no such file or directory`)
}

func TestAPluginIsAnnotated(t *testing.T) {
	w := newWorkshop(t, "mock")
	annotate := func(args ...string) result {
		return w.run(t, "", append([]string{"plugin", "annotate"}, args...)...)
	}
	r := annotate("-license", "MPL-2.0", "-source", "https://example.org", "-min-abi", "1.0", "-o", "a.wasm", "mock.wasm")
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, "Name      = mock_driver\n")
	first := read(t, filepath.Join(w.dir, "a.wasm"))
	require.Zero(t, annotate("a.wasm").code)
	assert.Equal(t, first, read(t, filepath.Join(w.dir, "a.wasm")), "what is not given stays")
	assert.Regexp(t, `(?m)^Name +=  ?mock_driver 0\.1\.0\nLicense +=  ?MPL-2\.0\nSource +=  ?https://example\.org\nNeeds ABI +=  ?1\.0$`, w.run(t, "", "plugin", "inspect", "a.wasm").stdout)

	require.Zero(t, annotate("-min-abi", "1.9", "a.wasm").code)
	wants(t, w.run(t, "", "plugin", "inspect", "a.wasm"), 1, `a\.wasm: policy: the plugin needs version 1\.9 of the plugin ABI, this node has 1\.0: .*`)
	require.Zero(t, annotate("-min-abi", "1.0", "-license", "MPL-2.0", "-source", "https://example.org", "a.wasm").code)
	assert.Equal(t, first, read(t, filepath.Join(w.dir, "a.wasm")))
	wants(t, annotate("-min-abi", "one", "a.wasm"), 1, `a\.wasm: min_abi "one" is not a version of the ABI, such as "1\.0"`)
	wants(t, annotate("none.wasm"), 1, `open none\.wasm: no such file or directory`)
}
