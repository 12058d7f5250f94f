package main

import (
	"strings"

	"github.com/wasmnode/wasmnode/managers/catalog"
)

type pluginStatusCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginStatusCommand) Synopsis() string { return "Show the plugins and their health" }

// Help implements [subcommand].
func (*pluginStatusCommand) Help() string {
	return `Usage: wasmnode plugin status [options]

  Lists every file of the plugin directory: what it is, whether it can be used and
  why not, what it imports and what it was granted.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *pluginStatusCommand) Run(args []string) int {
	f := c.flags("plugin status")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	var plugins []catalog.PluginStatus
	if _, err := client.Raw().Query("/v1/agent/plugins", &plugins, nil); err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(plugins)
	}
	if len(plugins) == 0 {
		c.ui.Output("No plugins: copy a .wasm file into the plugin directory")
		return 0
	}
	rows := [][]string{{"Name", "Type", "Version", "Health", "Digest", "Imported", "Granted", "File"}}
	for _, p := range plugins {
		rows = append(rows, []string{
			p.Name, string(p.Type), p.Version, string(p.State), f.short(p.Digest),
			capabilities(p.CapabilitiesImported), capabilities(p.CapabilitiesGranted), p.File,
		})
	}
	c.table(rows)
	for _, p := range plugins {
		if p.SignedBy != "" {
			c.ui.Output("\n" + p.File + ": signed with " + p.SignedBy)
		}
		if p.Reason != "" {
			c.ui.Output("\n" + p.File + ": " + p.Reason)
		}
		for _, refused := range p.Stats.NotGranted {
			c.ui.Output("\n" + p.File + ": " + refused)
		}
	}
	return 0
}

// capabilities shortens host modules' names: wasmnode:log/v1 is log.
func capabilities(modules []string) string {
	short := make([]string, len(modules))
	for i, m := range modules {
		m = strings.Replace(m, "wasi_snapshot_preview1", "wasi", 1)
		m = strings.TrimPrefix(m, "wasmnode:")
		short[i] = strings.Replace(m, "/v1", "", 1)
	}
	return strings.Join(short, ",")
}
