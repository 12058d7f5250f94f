package main

type aclTokenInfoCommand struct{ meta }

// Synopsis implements [subcommand].
func (*aclTokenInfoCommand) Synopsis() string { return "Show a token" }

// Help implements [subcommand].
func (*aclTokenInfoCommand) Help() string {
	return `Usage: wasmnode acl token info [options] ACCESSOR

  Shows a token by its accessor ID, without its secret: the node keeps a hash.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *aclTokenInfoCommand) Run(args []string) int {
	f := c.flags("acl token info")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	token, _, err := client.ACLTokens().Info(f.Arg(0), nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.printToken(f, token)
}
