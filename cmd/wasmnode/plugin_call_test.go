package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// workshop is where somebody tries plugins without a node.
type workshop struct{ dir string }

func newWorkshop(t *testing.T, drivers ...string) workshop {
	t.Helper()
	w := workshop{t.TempDir()}
	for _, name := range drivers {
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, name+".wasm"), driver(t, name), 0o600))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(w.dir, "wasmnode"), 0o700))
	require.NoError(t, os.Symlink(codeCache, filepath.Join(w.dir, "wasmnode", "code")))
	return w
}

// run runs a command in the workshop, with something on standard input.
func (w workshop) run(t *testing.T, input string, args ...string) result {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Stdin = w.dir, strings.NewReader(input)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+w.dir)
	return execute(t, cmd)
}

func TestAPluginIsCalledWithoutANode(t *testing.T) {
	w := newWorkshop(t, "mock", "raw_exec")
	start := `{"task": {"driver_config": {"command": "/bin/echo", "args": ["hi", "there"]}}}`
	echo := `process { commands = ["/bin/echo"] isolation = "none" }`

	r := w.run(t, start, "plugin", "call", "-grant", echo, "-input", "-", "raw_exec.wasm", "start_task")
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, `"workload_id": "00000000-0000-0000-0000-000000000001/task/00000001"`)
	assert.Regexp(t, `(?m)^driver_start_task +process/v1 start +\S+ +ok$`, r.stdout)
	assert.Regexp(t, `(?m)^Workload +=  ?ended with exit code 0$`, r.stdout)
	assert.Contains(t, r.stdout, "Standard output\nhi there\n")

	r = w.run(t, `{"task": {"driver_config": {"run_for": "1h", "start_event": "here"}}}`, "plugin", "call", "-json", "-input", "-", "mock.wasm", "driver_start_task")
	require.Zero(t, r.code, r.stderr)
	var out called
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &out))
	assert.Positive(t, out.Took)
	assert.Positive(t, out.Guest)
	assert.Positive(t, out.Memory)
	assert.Equal(t, "here", out.Events[0].Message)
	assert.Equal(t, "task/v1 event", out.Capabilities[0].Capability)

	// What it answered can be given to the next call, in a file.
	var answer struct{ Handle json.RawMessage }
	require.NoError(t, json.Unmarshal(out.Answer, &answer))
	stop := write(t, filepath.Join(w.dir, "stop.json"), `{"timeout_ms": 1000, "handle": `+string(answer.Handle)+`}`)
	r = w.run(t, "", "plugin", "call", "-input", stop, "mock.wasm", "stop_task")
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, "stopped_ns")

	configuration := write(t, filepath.Join(w.dir, "node.hcl"), "plugin \"mock_driver\" {\n  config { health = \"unhealthy\" }\n}\n")
	r = w.run(t, "", "plugin", "call", "-config", configuration, "mock.wasm", "fingerprint")
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, `"health": "HEALTH_STATE_UNHEALTHY"`)
}

func TestACallOfAPluginThatIsWrongSaysWhatToDo(t *testing.T) {
	w := newWorkshop(t, "mock", "raw_exec")
	configuration := write(t, filepath.Join(w.dir, "node.hcl"), "plugin \"other\" { }\n")
	commands := `process { commands = ["/bin/echo"] isolation = "none" }`
	for _, c := range []struct {
		args  []string
		input string
		want  string
	}{
		{[]string{"none.wasm", "describe"}, "", `(open|stat) none\.wasm: no such file or directory`},
		{[]string{"node.hcl", "describe"}, "", `node\.hcl: scan: .*`},
		{[]string{"mock.wasm", "frob"}, "", `unknown operation "frob": the plugin has driver_configure, .*driver_describe, .*driver_wait_task`},
		{[]string{"mock.wasm", "start_task"}, "{\n\"task\" 1}", `standard input:2:8: invalid character '1' after object key`},
		{[]string{"mock.wasm", "start_task"}, `{"tusk": 1}`, `standard input:1:2: unknown field "tusk"`},
		{[]string{"mock.wasm", "start_task"}, `{"task": {"driver_config": {"run_fro": "1s"}}}`, `standard input: task\.driver_config: config\.run_fro: unknown field, did you mean "run_for"\?`},
		{[]string{"-config", configuration, "mock.wasm", "fingerprint"}, `{}`, `.*node\.hcl: it has no block for this plugin: add plugin "mock_driver" { }`},
		{[]string{"-grant", "kx {}", "mock.wasm", "fingerprint"}, `{}`, `-grant:1,1: Unsupported block type.*`},
		{[]string{"raw_exec.wasm", "fingerprint"}, `{}`, `raw_exec\.wasm needs grant wasmnode:process/v1: add -grant 'process { commands = \["/path/to/program"\] }', naming .*`},
		{
			[]string{"-grant", commands, "raw_exec.wasm", "start_task"}, `{"task": {"driver_config": {"command": "/bin/true"}}}`,
			`the plugin answers PERMISSION_DENIED: command /bin/true is not granted: .*\n  here: -grant 'process { commands = \["/bin/true"\] }'`,
		},
		{[]string{"mock.wasm", "start_task"}, `{"task": {"driver_config": {"start_fault": "exit"}}}`, `plugin mock_driver exited in driver_start_task: .*`},
		{[]string{"-timeout", "300ms", "mock.wasm", "start_task"}, `{"task": {"driver_config": {"start_fault": "loop"}}}`, `plugin mock_driver was too slow in driver_start_task: .*`},
	} {
		r := w.run(t, c.input, append([]string{"plugin", "call", "-input", "-"}, c.args...)...)
		assert.Equal(t, 1, r.code, c.want)
		assert.Regexp(t, `^Error: `+c.want+`\n$`, r.stderr)
	}
}

func TestAPluginIsCheckedWithoutANode(t *testing.T) {
	w := newWorkshop(t, "mock")
	r := w.run(t, "", "plugin", "conform", "-task", `run_for = "1h"`, "mock.wasm")
	require.Zero(t, r.code, r.stdout)
	assert.Empty(t, r.stderr)
	assert.Regexp(t, `(?m)^ok    stop_task/again$`, r.stdout)
	assert.Regexp(t, `(?m)^skip  capability-fails +no use of one that can fail in fingerprint, start_task, recover_task, .*destroy_task$`, r.stdout)
	assert.Regexp(t, `\n\nmock_driver \S+: \d+ ok, 0 failed, 1 skipped\n$`, r.stdout)

	r = w.run(t, "", "plugin", "conform", "-task", `stop_error = "no"`, "mock.wasm")
	assert.Equal(t, 1, r.code)
	assert.Regexp(t, `(?m)^FAIL  stop_task +driver_stop_task: UNKNOWN: no$`, r.stdout)

	text := write(t, filepath.Join(w.dir, "text.wasm"), "text")
	r = w.run(t, "", "plugin", "conform", "-json", text)
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.stdout, `"Status": "FAIL"`)
	assert.Contains(t, r.stdout, `"Name": "load"`)

	wants(t, w.run(t, "", "plugin", "conform", "none.wasm"), 1, `stat none\.wasm: no such file or directory`)
	wants(t, w.run(t, "", "plugin", "conform", "-task", "a b", "mock.wasm"), 1, `-task:1,.*`)
}
