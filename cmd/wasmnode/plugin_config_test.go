package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sdk/go/conform"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
)

func TestAConfigBlockBecomesWhatTheDriverGets(t *testing.T) {
	w := newWorkshop(t, "raw_exec")
	r := w.run(t, "command = \"/bin/sleep\"\nargs = [\"1\"]\n", "plugin", "config", "raw_exec.wasm")
	require.Zero(t, r.code, r.stderr)
	assert.JSONEq(t, `{"command": "/bin/sleep", "args": ["1"], "denied_envvars": [], "oom_score_adj": 0}`, r.stdout)
	r = w.run(t, "", "plugin", "config", "-plugin", "raw_exec.wasm")
	require.Zero(t, r.code, r.stderr)
	assert.JSONEq(t, `{"enabled": true, "denied_envvars": []}`, r.stdout, "its defaults")

	write(t, filepath.Join(w.dir, "block.hcl"), "\ncommand = \n")
	for _, c := range []struct {
		input, want string
		args        []string
	}{
		{`comand = "/bin/sleep"`, `config\.comand: .*command.*`, nil},
		{`command = 1`, `config\.command: .*`, nil},
		{"command = ", `config:1,11: .*`, nil},
		{"", `block\.hcl:2,1.*`, []string{"-input", "block.hcl"}},
		{"", `open none: no such file or directory`, []string{"-input", "none"}},
		{strings.Repeat(" ", 1<<20+1), `a config block has at most 1 MiB`, nil},
	} {
		wants(t, w.run(t, c.input, append(append([]string{"plugin", "config"}, c.args...), "raw_exec.wasm")...), 1, `(?s)`+c.want)
	}
	wants(t, w.run(t, "", "plugin", "config", "-schema", "block.hcl"), 1, `block\.hcl: .*`)
	wants(t, w.run(t, "", "plugin", "config", "-plugin", "-schema", "block.hcl"), 1, `either -plugin or -schema: .*`)
	wants(t, w.run(t, "", "plugin", "config", "none.wasm"), 1, `open none.wasm: no such file or directory`)
}

// TestATestGivesATasksConfigAsAJobFileHasIt is about drivertest, which asks this program.
func TestATestGivesATasksConfigAsAJobFileHasIt(t *testing.T) {
	require.Equal(t, ownProgram, drivertest.Program)
	t.Setenv(drivertest.Program, binary)
	node := drivertest.NewCompiled(t, driver(t, "mock"), nil)
	task := node.TaskHCL("run_for = \"5s\"\nexit_code = 3\n")
	assert.JSONEq(t, string(node.Task(`{"run_for": "5s", "exit_code": 3}`).DriverConfig), string(task.DriverConfig), "with the same defaults")
	_, _, err := node.StartTask(task)
	require.NoError(t, err)
	_, err = node.TryTaskHCL(`run_fro = "5s"`)
	require.ErrorContains(t, err, `config.run_fro: `)
	require.ErrorContains(t, err, `run_for`)
	_, err = node.TryTaskHCL(`run_for = `)
	require.ErrorContains(t, err, `config:1,11: `)
	require.ErrorContains(t, node.ConfigureHCL("nonsense = 1"), "config.nonsense: ")
	require.NoError(t, node.ConfigureHCL(""))
}

// ended is a test that ends as it fails, with what it said.
type ended struct {
	*testing.T
	text string
}

// Fatalf implements [drivertest.T].
func (e *ended) Fatalf(format string, args ...any) {
	e.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestATestChecksAPluginAgainstTheContract is about drivertest, which asks this program.
func TestATestChecksAPluginAgainstTheContract(t *testing.T) {
	t.Setenv(drivertest.Program, binary)
	t.Setenv("XDG_CACHE_HOME", newWorkshop(t).dir)
	fails := func(wasm []byte, c drivertest.Contract) string {
		e := &ended{T: t}
		over := make(chan struct{})
		go func() {
			defer close(over)
			drivertest.Conform(e, wasm, c)
		}()
		<-over
		return e.text
	}
	report := drivertest.Conform(t, driver(t, "raw_exec"), drivertest.Contract{
		Task: "command = \"/bin/sleep\"\nargs = [\"60\"]", Grants: []string{`process { commands = ["/bin/sleep"] }`}, Timeout: time.Minute,
	})
	assert.Equal(t, "raw_exec", report.Plugin)
	assert.Greater(t, report.Count(conform.OK), 40)
	assert.Regexp(t, `^drivertest: [12] checks of the contract failed\nstop_task: driver_stop_task: UNKNOWN: no`,
		fails(driver(t, "mock"), drivertest.Contract{Task: `stop_error = "no"`, Timeout: time.Minute}))
	assert.Regexp(t, `^drivertest: 1 checks of the contract failed\nload: `, fails([]byte("text"), drivertest.Contract{}))
	assert.Regexp(t, `^drivertest: .* plugin conform: exit status 1: -task:1,.*`, fails(driver(t, "mock"), drivertest.Contract{Task: "a b"}))
	t.Setenv(drivertest.Program, "")
	t.Setenv("PATH", "")
	assert.Equal(t, "drivertest: the program wasmnode is not on PATH: install it, or set WASMNODE to its path", fails(nil, drivertest.Contract{}))
}
