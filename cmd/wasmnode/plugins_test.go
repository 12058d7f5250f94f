package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// TestADriverComesAndGoesWhileTheNodeRuns drops a driver in, replaces it below a
// running task, and removes it; none of that touches the task.
func TestADriverComesAndGoesWhileTheNodeRuns(t *testing.T) {
	s := newSite(t)
	n := s.start(t)
	assert.Equal(t, "No plugins: copy a .wasm file into the plugin directory\n", n.out(t, "plugin", "status"))
	file := writeJob(t, "ticker", "service", "wasi", fmt.Sprintf(`
        module = %q
        args   = ["-n", "1000000", "-every", "10ms"]`, s.program(t, "print")))
	assert.Equal(t, 2, n.run(t, "job", "run", file).code, "registered, and waits for a driver")

	// Copied as cp does it, not renamed into place.
	first := driver(t, "wasi")
	begun := time.Now()
	require.NoError(t, os.WriteFile(filepath.Join(s.plugins, "wasi.wasm"), first, 0o600))
	before := n.awaitPlugin(t, "wasi", catalog.StateHealthy)
	t.Logf("healthy %v after the file was complete", time.Since(begun))
	assert.Equal(t, "0.1.0", before.Version)
	alloc := n.await(t, "ticker", "running")

	s.drop(t, "wasi.wasm", renamed(t, first, "0.1.0", "0.1.1"))
	require.Eventually(t, func() bool {
		return n.awaitPlugin(t, "wasi", catalog.StateHealthy).Version == "0.1.1"
	}, testTimeout, tick)
	n.awaitLines(t, alloc.ID)
	after := n.await(t, "ticker", "running")
	assert.Equal(t, alloc.ID, after.ID)
	assert.Equal(t, taskEvents(alloc), taskEvents(after), "the task did not notice")

	require.NoError(t, os.Remove(filepath.Join(s.plugins, "wasi.wasm")))
	require.Eventually(t, func() bool { return !strings.Contains(n.out(t, "plugin", "status"), "healthy") }, testTimeout, tick)
	n.awaitDriver(t, "wasi", false)
	n.awaitLines(t, alloc.ID)
	r := n.run(t, "job", "run", writeJob(t, "late", "batch", "wasi", `module = "local/none.wasm"`))
	assert.Equal(t, 2, r.code)
	assert.Contains(t, r.stdout, `* Constraint "missing drivers": 1 nodes excluded by filter`)

	s.drop(t, "wasi.wasm", first)
	n.awaitPlugin(t, "wasi", catalog.StateHealthy)
	n.out(t, "job", "stop", "ticker")
	ended := n.await(t, "ticker", "complete")
	assert.Equal(t, "Killed", ended.TaskStates["task"].Events[len(ended.TaskStates["task"].Events)-1].Type)
	assertUnbroken(t, n.out(t, "alloc", "logs", alloc.ID))
}

// awaitLines waits until an allocation writes more than it has written.
func (n *node) awaitLines(t *testing.T, alloc string) {
	t.Helper()
	before := n.out(t, "alloc", "logs", alloc)
	require.Eventually(t, func() bool { return len(n.out(t, "alloc", "logs", alloc)) > len(before) }, testTimeout, tick)
}

// assertUnbroken checks that a text is the lines of the program "print", none left out.
func assertUnbroken(t *testing.T, text string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	require.Greater(t, len(lines), 2)
	for i, line := range lines {
		require.Equal(t, fmt.Sprintf("line %d", i+1), line)
	}
}

// TestOfTwentyFilesSevenAreBrokenAndThirteenServe runs a task on each plugin that is
// whole, and reads why the others are not taken.
func TestOfTwentyFilesSevenAreBrokenAndThirteenServe(t *testing.T) {
	good := guestbuild.CPlugin(t, "guest-examples/drivers/c-minimal")
	s := newSite(t)
	var job strings.Builder
	fmt.Fprintf(&job, "job \"all\" {\n type = \"batch\"\n")
	grants := new(strings.Builder)
	module := s.program(t, "exit")
	for i := range 13 {
		name := fmt.Sprintf("c_good_%02d", i)
		s.drop(t, name+".wasm", renamed(t, good, "c_minimal", name))
		fmt.Fprintf(grants, "plugin %q { grant { wasm { directories = [%q] } } }\n", name, s.programs)
		fmt.Fprintf(&job, " group %q {\n  ephemeral_disk {\n   size = 10\n  }\n  task \"task\" {\n   driver = %q\n   config {\n    module = %q\n   }\n   resources {\n    cpu = 10\n    memory = 16\n   }\n   logs {\n    max_files = 1\n    max_file_size = 1\n   }\n  }\n }\n", name, name, module)
	}
	broken := map[string]struct {
		content []byte
		reason  string
	}{
		"text.wasm":      {[]byte("#!/bin/sh\necho hello\n"), `scan: offset 0x0: not a WebAssembly module: it begins with "#!/b"`},
		"half.wasm":      {good[:len(good)/2], "was the file copied whole?"},
		"command.wasm":   {guestbuild.Program(t, "guest-examples/programs/exit"), "policy: a WASI command (it exports _start), not a plugin: build a reactor"},
		"component.wasm": {[]byte("\x00asm\x0d\x00\x01\x00"), "this is a component, and only core modules run here"},
		"future.wasm":    {renamed(t, good, "wasmnode:abi/v1", "wasmnode:abi/v2"), "this node supports wasmnode:abi/v1, the plugin needs v2: build it against v1"},
		"lacking.wasm":   {renamed(t, good, "driver_configure", "driver_cofingure"), "a driver plugin has to export driver_configure"},
		"schema.wasm":    {renamed(t, good, `"required":["module"]`, `"required":"module!!"`), "describe: task_config_schema: at /required: a string, want a list"},
	}
	for name, b := range broken {
		s.drop(t, name, b.content)
	}
	write(t, s.config, read(t, s.config)+grants.String())
	n := s.start(t)

	var list []catalog.PluginStatus
	require.Eventually(t, func() bool {
		list = n.plugins(t)
		return len(list) == 20 && !slices.ContainsFunc(list, func(p catalog.PluginStatus) bool { return p.State == catalog.StateLoading })
	}, testTimeout, tick)
	text := n.out(t, "plugin", "status")
	reasons := map[string]bool{}
	for _, p := range list {
		b, isBroken := broken[filepath.Base(p.File)]
		if !isBroken {
			assert.Equal(t, catalog.StateHealthy, p.State, "%s: %s", p.File, p.Reason)
			continue
		}
		assert.Equal(t, catalog.StateRejected, p.State, p.File)
		assert.Contains(t, p.Reason, b.reason)
		assert.Contains(t, text, "\n"+p.File+": "+p.Reason+"\n")
		reasons[p.Reason] = true
	}
	assert.Len(t, reasons, len(broken))

	n.out(t, "job", "run", write(t, filepath.Join(t.TempDir(), "all.nomad.hcl"), job.String()+"}\n"))
	var allocs []*nomad.AllocationListStub
	require.Eventually(t, func() bool {
		allocs = n.allocs(t, "all")
		return !slices.ContainsFunc(allocs, func(a *nomad.AllocationListStub) bool { return a.ClientStatus != "complete" })
	}, testTimeout, tick)
	assert.Len(t, allocs, 13)
}

// plugins are what "plugin status" lists.
func (n *node) plugins(t *testing.T) []catalog.PluginStatus {
	t.Helper()
	var list []catalog.PluginStatus
	require.NoError(t, json.Unmarshal([]byte(n.out(t, "plugin", "status", "-json")), &list))
	return list
}

// awaitPlugin waits until a plugin is listed with a state, and returns it.
func (n *node) awaitPlugin(t *testing.T, name string, state catalog.State) catalog.PluginStatus {
	t.Helper()
	var found catalog.PluginStatus
	require.Eventually(t, func() bool {
		list := n.plugins(t)
		i := slices.IndexFunc(list, func(p catalog.PluginStatus) bool { return p.Name == name && p.State == state })
		if i >= 0 {
			found = list[i]
		}
		return i >= 0
	}, testTimeout, tick, "waiting for %s to be %s", name, state)
	return found
}

// awaitDriver waits until the control plane knows that the node has a healthy driver, or
// that it has none: it hears of it a moment after the node lists the plugin so.
func (n *node) awaitDriver(t *testing.T, name string, healthy bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		var self nomad.Node
		require.NoError(t, json.Unmarshal([]byte(n.out(t, "node", "status", "-self", "-json")), &self))
		d := self.Drivers[name]
		return (d != nil && d.Healthy) == healthy
	}, testTimeout, tick, "waiting for the driver %s", name)
}

// renamed changes a string in a plugin to another of the same length.
func renamed(t *testing.T, wasm []byte, from, to string) []byte {
	t.Helper()
	require.Len(t, to, len(from))
	require.Contains(t, string(wasm), from)
	return bytes.ReplaceAll(wasm, []byte(from), []byte(to))
}
