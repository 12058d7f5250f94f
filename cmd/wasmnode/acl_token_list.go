package main

import (
	"fmt"
	"time"
)

type aclTokenListCommand struct{ meta }

// Synopsis implements [subcommand].
func (*aclTokenListCommand) Synopsis() string { return "List the tokens" }

// Help implements [subcommand].
func (*aclTokenListCommand) Help() string {
	return `Usage: wasmnode acl token list [options]

  Lists the tokens, without their secrets.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *aclTokenListCommand) Run(args []string) int {
	f := c.flags("acl token list")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	tokens, _, err := client.ACLTokens().List(nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(tokens)
	}
	if len(tokens) == 0 {
		c.ui.Output("No tokens found")
		return 0
	}
	rows := [][]string{{"Name", "Type", "Global", "Accessor ID", "Expired"}}
	for _, t := range tokens {
		expired := t.ExpirationTime != nil && !time.Now().Before(*t.ExpirationTime)
		rows = append(rows, []string{t.Name, t.Type, fmt.Sprint(t.Global), t.AccessorID, fmt.Sprint(expired)})
	}
	c.table(rows)
	return 0
}
