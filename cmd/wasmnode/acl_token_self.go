package main

type aclTokenSelfCommand struct{ meta }

// Synopsis implements [subcommand].
func (*aclTokenSelfCommand) Synopsis() string { return "Show the token in use" }

// Help implements [subcommand].
func (*aclTokenSelfCommand) Help() string {
	return `Usage: wasmnode acl token self [options]

  Shows the token whose secret -token or NOMAD_TOKEN has.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *aclTokenSelfCommand) Run(args []string) int {
	f := c.flags("acl token self")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	token, _, err := client.ACLTokens().Self(nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.printToken(f, token)
}
