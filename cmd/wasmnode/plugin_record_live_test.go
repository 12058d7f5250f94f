package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/managers/catalog"
)

// TestACallOfANodesPluginIsRecordedAndReplayed records a driver while its task runs on a node.
func TestACallOfANodesPluginIsRecordedAndReplayed(t *testing.T) {
	s, w := newSite(t, "raw_exec"), newWorkshop(t, "raw_exec", "mock")
	s.grant(t, "enable_debug = true\nplugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n  grant {\n    process {\n      commands  = [\"/bin/sleep\"]\n      isolation = \"none\"\n    }\n  }\n}\n")
	n := s.start(t)
	n.awaitPlugin(t, "raw_exec", catalog.StateHealthy)
	wants(t, n.run(t, "plugin", "record", "-live", "-o", filepath.Join(w.dir, "no"), "none"), 1, `no plugin "none" is loaded`)
	wants(t, n.run(t, "plugin", "record", "-live", "-o", filepath.Join(w.dir, "no"), "-for", "2h", "raw_exec"), 1, `for: "2h0m0s" is not a time of at most 1h0m0s, such as 10m`)
	wants(t, n.run(t, "plugin", "record", "-live", "-o", "no", "-task", "x = 1", "raw_exec"), 1, `-task is for a plugin's file: with -live the node decides`)
	assert.NoFileExists(t, filepath.Join(w.dir, "no"))

	file := filepath.Join(w.dir, "live")
	cmd := exec.Command(binary, "plugin", "record", "-live", "-o", file, "raw_exec")
	cmd.Env = append(os.Environ(), "NOMAD_ADDR=http://"+n.address)
	recording := launchProcess(t, cmd)
	recording.log.await(t, regexp.MustCompile(`(?m)^==> Calls of plugin "raw_exec" from now on are recorded in `), recording.exited)
	wants(t, n.run(t, "plugin", "record", "-live", "-o", filepath.Join(w.dir, "no"), "raw_exec"), 1, `the calls of a plugin are recorded already: a node makes one recording at a time`)

	job := writeJob(t, "sleeps", "service", "raw_exec", "command = \"/bin/sleep\"\nargs = [\"1000\", \"swordfish\"]\n}\nenv {\nDOOR = \"swordfish\"\n")
	require.Zero(t, n.run(t, "job", "run", "-detach", job).code)
	recording.log.await(t, regexp.MustCompile(`(?m)^driver_start_task alloc=\S+ task=task: ok, 1 capability use$`), recording.exited)
	assert.Zero(t, recording.signal(t, syscall.SIGINT))
	assert.Regexp(t, `(?m)^`+regexp.QuoteMeta(file)+`: \d+ calls?$`, recording.log.String())
	n.log.await(t, regexp.MustCompile("the calls of a plugin are not recorded any more: plugin=raw_exec"), n.exited)

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "swordfish")
	assert.Contains(t, string(text), `"DOOR":"masked-ma"`)
	r := w.run(t, "", "plugin", "replay", "raw_exec.wasm", "live")
	require.Zero(t, r.code, r.stderr+r.stdout)
	assert.Regexp(t, `^\d+ calls?, each as recorded\n$`, r.stdout)
	write(t, filepath.Join(w.dir, "other"), strings.Replace(string(text), `"args":["1000"`, `"args":["1"`, 2))
	r = w.run(t, "", "plugin", "replay", "raw_exec.wasm", "other")
	require.Zero(t, r.code, "the same change of what is asked for and what comes of it: %s", r.stdout)
	at := strings.LastIndex(string(text), `"args":["1000"`)
	write(t, filepath.Join(w.dir, "wrong"), string(text[:at])+strings.Replace(string(text[at:]), `"args":["1000"`, `"args":["1"`, 1))
	r = w.run(t, "", "plugin", "replay", "raw_exec.wasm", "wrong")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.stderr, "driver_start_task, use 1 of a capability")
}

// TestARecordingHasItsBounds has one that ends by itself, and one that nothing is in.
func TestARecordingHasItsBounds(t *testing.T) {
	s := newSite(t, "mock")
	s.grant(t, "enable_debug = true")
	n := s.start(t)
	n.awaitPlugin(t, "mock_driver", catalog.StateHealthy)
	dir := t.TempDir()
	wants(t, n.run(t, "plugin", "record", "-live", "-o", filepath.Join(dir, "short"), "-for", "1ms", "mock_driver"), 1, `nothing is recorded: the plugin was not called`)
	assert.Empty(t, names(t, dir))
}

func TestRecordingIsRefusedUnlessItIsAllowed(t *testing.T) {
	s := newSite(t, "mock")
	n := s.start(t)
	n.awaitPlugin(t, "mock_driver", catalog.StateHealthy)
	dir := t.TempDir()
	wants(t, n.run(t, "plugin", "record", "-live", "-o", filepath.Join(dir, "no"), "mock_driver"), 1, `Permission denied: set enable_debug in the agent's configuration`)
	assert.Empty(t, names(t, dir))
}
