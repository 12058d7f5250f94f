package catalog

import (
	"fmt"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/internal/configschema"
)

// misspelt warns of a block of the configuration that was most likely meant for a plugin that is in
// charge and has none: nothing else has the block's name, and the two are alike. A block for a
// plugin that comes later is nothing to warn of.
func (t *files) misspelt(name string) []action {
	if _, decided := t.settings.Plugins[name]; decided {
		return nil
	}
	unused := map[string]PluginSettings{}
	for block, p := range t.settings.Plugins {
		if p.SHA256 == "" && t.byName[t.settings.meant(block)] == nil {
			unused[block] = p
		}
	}
	block := configschema.Suggest(name, unused)
	if block == "" {
		return nil
	}
	return []action{logLine{hclog.Warn, "the configuration has a block for a plugin that is not there, and none for one of a similar name", []any{
		"block", fmt.Sprintf("plugin %q", block), "plugin", name, "did_you_mean", fmt.Sprintf("plugin %q { … }", name),
	}}}
}
