package main

import "fmt"

type aclTokenDeleteCommand struct{ meta }

// Synopsis implements [subcommand].
func (*aclTokenDeleteCommand) Synopsis() string { return "Delete a token" }

// Help implements [subcommand].
func (*aclTokenDeleteCommand) Help() string {
	return `Usage: wasmnode acl token delete [options] ACCESSOR

  Deletes a token by its accessor ID. Whoever shows its secret from then on is
  refused.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *aclTokenDeleteCommand) Run(args []string) int {
	f := c.flags("acl token delete")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	if _, err := client.ACLTokens().Delete(f.Arg(0), nil); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output(fmt.Sprintf("Token %s successfully deleted", f.Arg(0)))
	return 0
}
