package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASchemaIsDocumentedWithExamplesThatAreTaken(t *testing.T) {
	w := newWorkshop(t, "mock")
	r := w.run(t, "", "plugin", "schema", "-hcl", "mock.wasm")
	require.Zero(t, r.code, r.stderr)
	task, plugin, found := strings.Cut(r.stdout, "# In the agent's configuration:\n")
	require.True(t, found, r.stdout)
	job := write(t, filepath.Join(w.dir, "a.nomad.hcl"), group(task))
	assert.Equal(t, result{0, "Job validation successful\n", ""}, w.run(t, "", "job", "validate", "-plugin-dir", ".", job))
	configuration := write(t, filepath.Join(w.dir, "agent.hcl"), plugin)
	assert.Zero(t, w.run(t, "", "config", "validate", configuration).code)
	assert.Zero(t, w.run(t, "", "plugin", "call", "-config", configuration, "mock.wasm", "fingerprint").code)

	r = w.run(t, "", "plugin", "schema", "mock.wasm")
	require.Zero(t, r.code, r.stderr)
	assert.True(t, strings.HasPrefix(r.stdout, "# mock_driver 0."), r.stdout)
	assert.Contains(t, r.stdout, "| `start_error_recoverable` | true or false |  | `false` | Whether that error can be mended by starting again. |\n")
	assert.Contains(t, r.stdout, "```hcl\ntask \"example\" {\n")
	assert.Contains(t, r.stdout, "```hcl\nplugin \"mock_driver\" {\n")
	assert.Equal(t, r, w.run(t, "", "plugin", "schema", "-markdown", "mock.wasm"))

	r = w.run(t, "", "plugin", "schema", "-json", "mock.wasm")
	require.Zero(t, r.code, r.stderr)
	var s pluginSchema
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &s))
	assert.Equal(t, "mock_driver", s.Name)
	assert.Greater(t, len(s.TaskConfig.Fields), 5)
	assert.Contains(t, string(s.PluginConfig.Schema), "health_description")

	assert.Equal(t, result{1, "", "Error: open none.wasm: no such file or directory\n"}, w.run(t, "", "plugin", "schema", "none.wasm"))
	assert.Equal(t, 1, w.run(t, "", "plugin", "schema", "-hcl", "-json", "mock.wasm").code)
}

// documented checks that a node documents a plugin as its file does.
func documented(t *testing.T, n *node, name, file string) {
	t.Helper()
	want := command(t, "", "plugin", "schema", file)
	require.Zero(t, want.code, want.stderr)
	assert.Equal(t, want, n.run(t, "plugin", "schema", name))
	assert.Regexp(t, `(?m)^ok +node +file +the node uses it$`, n.out(t, "plugin", "doctor", "-grant", "wasm { enabled = true }", file))
	assert.Regexp(t, fmt.Sprintf(`no plugin %q is in service`, name+"x"), n.run(t, "plugin", "schema", name+"x").stderr)
}

func TestTwoVersionsOfAPluginAreCompared(t *testing.T) {
	w := newWorkshop(t, "raw_exec")
	good := driver(t, "raw_exec")
	write(t, filepath.Join(w.dir, "new.wasm"), string(renamed(t, renamed(t, good, "0.1.0", "0.2.0"), `"required": ["command"]`, `"required": ["args"   ]`)))
	r := w.run(t, "", "plugin", "diff", "raw_exec.wasm", "new.wasm")
	assert.Equal(t, result{1, `Part         Name     May break  Change
plugin       version  no         was 0.1.0, now 0.2.0
task config  args     yes        now required
task config  command  no         no longer required

3 different, of which 1 may break what works with the old one
`, ""}, r)

	r = w.run(t, "", "plugin", "diff", "-json", "raw_exec.wasm", "new.wasm")
	require.Equal(t, 1, r.code, r.stderr)
	var d pluginDiff
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &d))
	assert.Equal(t, "0.2.0", d.New.Version)
	assert.Len(t, d.Changes, 3)

	assert.Equal(t, result{0, "The files are the same\n", ""}, w.run(t, "", "plugin", "diff", "raw_exec.wasm", "raw_exec.wasm"))
	assert.Equal(t, result{2, "", "Error: open none.wasm: no such file or directory\n"}, w.run(t, "", "plugin", "diff", "raw_exec.wasm", "none.wasm"))
	assert.Equal(t, 2, w.run(t, "", "plugin", "diff", "raw_exec.wasm").code)
}
