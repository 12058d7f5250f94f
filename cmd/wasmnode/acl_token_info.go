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
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	token, _, err := client.ACLTokens().Info(f.Arg(0), nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.printToken(f, token)
}
