package main

import (
	"cmp"

	nomad "github.com/hashicorp/nomad/api"
)

type aclTokenUpdateCommand struct{ meta }

// Synopsis implements [subcommand].
func (*aclTokenUpdateCommand) Synopsis() string { return "Change a token" }

// Help implements [subcommand].
func (*aclTokenUpdateCommand) Help() string {
	return `Usage: wasmnode acl token update [options] ACCESSOR

  Changes what a token is called and may do, by its accessor ID: its secret stays as it is, and
  may do from then on what the token says. What no option names stays, too.

Options:

  -name=NAME      For people.
  -type=TYPE      client or management.
  -policy=NAME    A policy; may be given several times. These take the place of all it had.
  -role-id=ID     A role, by its ID; may be given several times. These, and those of -role-name,
                  take the place of all it had.
  -role-name=NAME  A role by its name.` + commonOptions
}

// Run implements [subcommand].
func (c *aclTokenUpdateCommand) Run(args []string) int {
	f := c.flags("acl token update")
	var wanted nomad.ACLToken
	f.StringVar(&wanted.Name, "name", "", "")
	f.StringVar(&wanted.Type, "type", "", "")
	bindGrants(f, &wanted)
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	token, _, err := client.ACLTokens().Info(f.Arg(0), nil)
	if err != nil {
		return c.fail(f, err)
	}
	token.Name, token.Type = cmp.Or(wanted.Name, token.Name), cmp.Or(wanted.Type, token.Type)
	if len(wanted.Policies) > 0 {
		token.Policies = wanted.Policies
	}
	if len(wanted.Roles) > 0 {
		token.Roles = wanted.Roles
	}
	token, _, err = client.ACLTokens().Update(token, nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.printToken(f, token)
}
