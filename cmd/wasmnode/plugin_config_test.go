package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
