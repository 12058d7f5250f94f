package main

import "github.com/wasmnode/wasmnode/agent"

type configValidateCommand struct{ meta }

// Synopsis implements [subcommand].
func (*configValidateCommand) Synopsis() string { return "Check the configuration of an agent" }

// Help implements [subcommand].
func (*configValidateCommand) Help() string {
	return `Usage: wasmnode config validate FILE|DIR...

  Reads configuration as an agent does that is given these files and directories,
  later ones over earlier ones, and says what is wrong with it, and what of Nomad's
  has no effect. It needs no agent. The exit code is 0 if nothing is wrong, else 1.`
}

const maxConfigPaths = 1000

// Run implements [subcommand].
func (c *configValidateCommand) Run(args []string) int {
	f := c.flags("config validate")
	if !c.parse(f, args, 1, maxConfigPaths, c.Help()) {
		return 1
	}
	warnings, err := agent.CheckConfiguration(f.Args()...)
	for _, warning := range warnings {
		c.ui.Warn("Warning: " + warning)
	}
	if err != nil {
		c.ui.Error("Configuration is invalid")
		return c.fail(f, err)
	}
	c.ui.Output("Configuration is valid!")
	return 0
}
