package agent

import (
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/state"
)

// kept is what plugins keep, in the node's database.
type kept struct{ db state.DB }

// Values implements [host.Store].
func (k kept) Values(plugin string) (map[string]host.Kept, error) {
	stored, err := k.db.PluginValues(plugin)
	if err != nil {
		return nil, err
	}
	values := make(map[string]host.Kept, len(stored))
	for key, v := range stored {
		values[key] = host.Kept{Version: v.Version, Value: v.Value}
	}
	return values, nil
}

// Put implements [host.Store].
func (k kept) Put(plugin, key string, v host.Kept) error {
	return k.db.PutPluginValue(plugin, key, &state.PluginValue{Version: v.Version, Value: v.Value})
}

// Delete implements [host.Store].
func (k kept) Delete(plugin, key string) error { return k.db.DeletePluginValue(plugin, key) }
