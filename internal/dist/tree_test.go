package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheDirectoryOfTheConfigurationIsThePersons: what a package has, an upgrade opens again.
func TestTheDirectoryOfTheConfigurationIsThePersons(t *testing.T) {
	var all tree
	all.addConfig("/etc/wasmnode/wasmnode.hcl", nil)
	all.add("/usr/share/wasmnode/plugins/exec.wasm", 0o644, nil)
	require.Equal(t, []string{"/usr/share/wasmnode", "/usr/share/wasmnode/plugins"}, all.ownDirectories())
}
