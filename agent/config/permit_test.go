package config_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/host"
)

func TestAPermissionIsPutOverWhatIsGranted(t *testing.T) {
	p := config.Plugin{Grant: host.Grants{Process: host.ProcessGrant{Commands: []string{"/bin/false"}, Users: []string{"nobody"}}}}
	require.NoError(t, p.Permit("-grant", `kv { enabled = true } process { commands = ["/bin/true"] }`))
	assert.True(t, p.Grant.KV.Enabled)
	assert.Equal(t, []string{"/bin/true"}, p.Grant.Process.Commands)
	assert.Equal(t, []string{"nobody"}, p.Grant.Process.Users)
}

func TestAPermissionThatIsWrongChangesNothing(t *testing.T) {
	for text, want := range map[string]string{
		`kw { }`:                             `-grant:1,1: Unsupported block type; Blocks of type "kw" are not expected here. Did you mean "fs"?`,
		"kv { enabled = true }\nprocess { a": `-grant:2,11: Argument or block definition required`,
		`kv { enabled = 7 }`:                 `-grant:1,`,
		`fs { read_only = ["x"] }`:           `-grant: grant.fs.read_only: "x" has to be an absolute path`,
		`process { isolation = "some" }`:     `-grant:1,`,
	} {
		var p config.Plugin
		require.ErrorContains(t, p.Permit("-grant", text), want, text)
		assert.Zero(t, p, text)
	}
}
