package main

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/managers"
)

// plugins are what "plugin status" lists.
func (n *node) plugins(t *testing.T) []managers.PluginStatus {
	t.Helper()
	var list []managers.PluginStatus
	require.NoError(t, json.Unmarshal([]byte(n.out(t, "plugin", "status", "-json")), &list))
	return list
}

// awaitPlugin waits until a plugin is listed with a state, and returns it.
func (n *node) awaitPlugin(t *testing.T, name, state string) managers.PluginStatus {
	t.Helper()
	var found managers.PluginStatus
	require.Eventually(t, func() bool {
		list := n.plugins(t)
		i := slices.IndexFunc(list, func(p managers.PluginStatus) bool { return p.Name == name && string(p.State) == state })
		if i >= 0 {
			found = list[i]
		}
		return i >= 0
	}, patience, tick, "waiting for %s to be %s", name, state)
	return found
}
