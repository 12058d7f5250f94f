package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPluginIsRecordedAndReplayed(t *testing.T) {
	w := newWorkshop(t, "mock", "raw_exec")
	sleep := `process { commands = ["/bin/sleep"] isolation = "none" }`
	r := w.run(t, "", "plugin", "record", "-o", "life", "-grant", sleep, "-task", `command = "/bin/sleep"`+"\n"+`args = ["1000"]`, "raw_exec.wasm")
	require.Zero(t, r.code, r.stderr)
	assert.Regexp(t, `(?m)^driver_start_task +1 +ok$`, r.stdout)
	assert.Contains(t, r.stdout, "\nlife: 8 calls\n")

	r = w.run(t, "", "plugin", "replay", "-sweep", "raw_exec.wasm", "life")
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, "8 calls, each as recorded\n")
	assert.Regexp(t, `(?m)^2 +driver_start_task +1: process/v1 start +PERMISSION_DENIED +PERMISSION_DENIED: .* +works$`, r.stdout)
	assert.Contains(t, r.stdout, "\n3 faults, 0 bad\n")

	text, err := os.ReadFile(filepath.Join(w.dir, "life"))
	require.NoError(t, err)
	write(t, filepath.Join(w.dir, "other"), strings.Replace(string(text), `"request":{"args":["1000"]`, `"request":{"args":["1"]`, 1))
	r = w.run(t, "", "plugin", "replay", "raw_exec.wasm", "other")
	assert.Equal(t, 1, r.code)
	assert.Equal(t, "Error: call 2, driver_start_task, use 1 of a capability (line 5): process/v1 start: the request differs\n", r.stderr)
	assert.Equal(t, "\nargs[0]\n  recorded  \"1\"\n  now       \"1000\"\n", r.stdout)
	r = w.run(t, "", "plugin", "replay", "-json", "raw_exec.wasm", "other")
	assert.Equal(t, 1, r.code)
	var out replayed
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &out))
	assert.Equal(t, 2, out.Difference.Call)

	wants(t, w.run(t, "", "plugin", "record", "-o", "life", "mock.wasm"), 1, `open life: file exists`)
	wants(t, w.run(t, "", "plugin", "record", "mock.wasm"), 1, `-o says where .*`)
	for _, option := range []string{"-for=1s", "-max-bytes=1", "-address=http://127.0.0.1:1"} {
		name, _, _ := strings.Cut(option, "=")
		wants(t, w.run(t, "", "plugin", "record", "-o", "x", option, "mock.wasm"), 1, name+` is for a plugin of a node: add -live`)
	}
	wants(t, w.run(t, "", "plugin", "record", "-o", "x", "-task", `nonsense = 1`, "mock.wasm"), 1, `-task: config.nonsense: .*`)
	wants(t, w.run(t, "", "plugin", "replay", "mock.wasm", "life"), 1, `life is a recording of plugin raw_exec, and mock.wasm is mock_driver`)
	wants(t, w.run(t, "", "plugin", "replay", "mock.wasm", "mock.wasm"), 1, `mock.wasm:1: this is no recording: .*`)
}

func TestASingleCallIsRecordedAndAnsweredFromARecording(t *testing.T) {
	w := newWorkshop(t, "mock", "raw_exec")
	echo := `process { commands = ["/bin/echo"] isolation = "none" }`
	start := `{"task": {"driver_config": {"command": "/bin/echo", "args": ["hi", "swordfish"]}, "env": {"PASS": "swordfish"}}}`
	for range 2 {
		r := w.run(t, start, "plugin", "call", "-grant", echo, "-input", "-", "-record", "calls", "raw_exec.wasm", "start_task")
		require.Zero(t, r.code, r.stderr)
		assert.Contains(t, r.stdout, "Standard output\nhi swordfish\n", "it is masked in the recording only")
	}
	text, err := os.ReadFile(filepath.Join(w.dir, "calls"))
	require.NoError(t, err)
	assert.NotContains(t, string(text), "swordfish")
	r := w.run(t, "", "plugin", "replay", "raw_exec.wasm", "calls")
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, "2 calls, each as recorded")

	masked := strings.ReplaceAll(start, "swordfish", "masked-ma")
	r = w.run(t, masked, "plugin", "call", "-input", "-", "-replay", "calls", "raw_exec.wasm", "start_task")
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, `"workload_id": "00000000-0000-0000-0000-000000000001/task/00000001"`)
	assert.NotContains(t, r.stdout, "Standard output", "nothing was started")
	r = w.run(t, strings.Replace(masked, "hi", "ho", 1), "plugin", "call", "-input", "-", "-replay", "calls", "raw_exec.wasm", "start_task")
	wants(t, r, 1, `the plugin answers UNAVAILABLE, recoverable: the recording has no answer to this`)

	wants(t, w.run(t, "", "plugin", "call", "-record", "a", "-replay", "b", "mock.wasm", "fingerprint"), 1, `either -record or -replay`)
	wants(t, w.run(t, "", "plugin", "call", "-record", "calls", "mock.wasm", "fingerprint"), 1, `calls: the recording is of another file: of raw_exec .*`)
	wants(t, w.run(t, "", "plugin", "call", "-replay", "none", "mock.wasm", "fingerprint"), 1, `open none: no such file or directory`)
}
