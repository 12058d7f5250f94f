package trial_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/sandbox/scan"
	"github.com/wasmnode/wasmnode/trial"
)

func TestWhatIsDifferentInANewerPluginIsNamed(t *testing.T) {
	described := func(change func(*host.Spec, *wasmnodev1.DriverDescribeResponse)) trial.Described {
		d := trial.Described{
			Spec: &host.Spec{Spec: &scan.Spec{}, Kind: host.KindDriver, Operations: []string{abi.OpDriverDescribe}},
			Says: &wasmnodev1.DriverDescribeResponse{
				Name: "d", Version: "1", Capabilities: &wasmnodev1.DriverCapabilities{Exec: true},
				TaskConfigSchema: `{"properties":{"a":{"type":"string","description":"old words"},"b":{"type":"string"}}}`,
			},
		}
		if change != nil {
			change(d.Spec, d.Says)
		}
		return d
	}
	for name, c := range map[string]struct {
		change func(*host.Spec, *wasmnodev1.DriverDescribeResponse)
		want   []trial.Change
	}{
		"nothing": {nil, nil},
		"words": {func(_ *host.Spec, says *wasmnodev1.DriverDescribeResponse) {
			says.Name, says.Version = "e", "2"
			says.TaskConfigSchema = `{"properties":{"a":{"type":"string","description":"new words"},"b":{"type":"string"}}}`
		}, []trial.Change{{Part: "plugin", Name: "name", Text: "was d, now e", Breaking: true}, {Part: "plugin", Name: "version", Text: "was 1, now 2"}}},
		"another type": {func(s *host.Spec, says *wasmnodev1.DriverDescribeResponse) {
			s.Kind, says.TaskConfigSchema = host.KindDevice, ""
		}, []trial.Change{{Part: "plugin", Name: "type", Text: "was driver, now device", Breaking: true}}},
		"operations": {func(s *host.Spec, _ *wasmnodev1.DriverDescribeResponse) {
			s.Operations = []string{abi.OpDriverExecTask}
		},
			[]trial.Change{{Part: "operation", Name: abi.OpDriverDescribe, Text: "gone", Breaking: true}, {Part: "operation", Name: abi.OpDriverExecTask, Text: "new"}}},
		"a grant": {func(s *host.Spec, _ *wasmnodev1.DriverDescribeResponse) {
			s.Capabilities = []string{abi.ModuleKV, abi.ModuleLog}
			s.Imports = []scan.Import{{Module: abi.ModuleKV, Name: "get"}, {Module: abi.ModuleKV, Name: "get"}}
		}, []trial.Change{
			{Part: "import", Name: "wasmnode:kv/v1 get", Text: "new"},
			{Part: "grant", Name: abi.ModuleKV, Text: `now needed: add plugin "d" { grant { kv { enabled = true } } }`, Breaking: true},
		}},
		"what it can do": {func(_ *host.Spec, says *wasmnodev1.DriverDescribeResponse) {
			says.Capabilities = &wasmnodev1.DriverCapabilities{SendSignals: true, FilesystemIsolation: wasmnodev1.FilesystemIsolation_FILESYSTEM_ISOLATION_CHROOT}
		}, []trial.Change{
			{Part: "capability", Name: "send_signals", Text: "new"},
			{Part: "capability", Name: "exec", Text: "gone", Breaking: true},
			{Part: "capability", Name: "filesystem_isolation", Text: "was unspecified, now chroot", Breaking: true},
		}},
		"a field": {func(_ *host.Spec, says *wasmnodev1.DriverDescribeResponse) {
			says.TaskConfigSchema = `{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a"]}`
		}, []trial.Change{{Part: "task config", Name: "a", Text: "now required", Breaking: true}}},
		"what goes together": {func(_ *host.Spec, says *wasmnodev1.DriverDescribeResponse) {
			says.TaskConfigSchema = `{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"dependentRequired":{"a":["b"]}}`
		}, []trial.Change{{Part: "task config", Name: "schema", Text: "differs in more than its fields: in what goes together, or what else it takes", Breaking: true}}},
		"the plugin's own": {func(_ *host.Spec, says *wasmnodev1.DriverDescribeResponse) {
			says.PluginConfigSchema = `{"properties":{"dir":{"type":"string"}}}`
		}, []trial.Change{{Part: "plugin config", Name: "dir", Text: "new: string"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := trial.Compare(described(nil), described(c.change))
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
	_, err := trial.Compare(described(nil), described(func(_ *host.Spec, says *wasmnodev1.DriverDescribeResponse) { says.TaskConfigSchema = "[" }))
	require.EqualError(t, err, "task config: schema: not JSON: unexpected EOF")
}
