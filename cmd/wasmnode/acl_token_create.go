package main

import (
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

type aclTokenCreateCommand struct{ meta }

// Synopsis implements [subcommand].
func (*aclTokenCreateCommand) Synopsis() string { return "Make a token" }

// Help implements [subcommand].
func (*aclTokenCreateCommand) Help() string {
	return `Usage: wasmnode acl token create [options]

  Makes a token and prints its secret, this once.

Options:

  -name=NAME      For people.
  -type=TYPE      client, which may do what its policies say, or management, which
                  may do everything; client.
  -policy=NAME    A policy of a client token: readonly, or one that acl policy apply
                  made; may be given several times.
  -role-id=ID     A role of a client token, by its ID; may be given several times.
  -role-name=NAME  A role by its name, likewise.
  -ttl=DURATION   How long the token is good for, such as 8h; for ever. From
                  a minute to a day, unless the agent's configuration says otherwise.
  -global         Is kept, and means nothing on one machine.` + commonOptions
}

// Run implements [subcommand].
func (c *aclTokenCreateCommand) Run(args []string) int {
	f := c.flags("acl token create")
	token := nomad.ACLToken{}
	f.StringVar(&token.Name, "name", "", "")
	f.StringVar(&token.Type, "type", "client", "")
	f.BoolVar(&token.Global, "global", false, "")
	f.DurationVar(&token.ExpirationTTL, "ttl", 0, "")
	bindGrants(f, &token)
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	made, _, err := client.ACLTokens().Create(&token, nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.printToken(f, made)
}

// bindGrants has options say what a token has: policies and roles.
func bindGrants(f *flags, t *nomad.ACLToken) {
	f.Func("policy", "", func(name string) error {
		t.Policies = append(t.Policies, strings.Split(name, ",")...)
		return nil
	})
	f.Func("role-id", "", func(id string) error {
		t.Roles = append(t.Roles, &nomad.ACLTokenRoleLink{ID: id})
		return nil
	})
	f.Func("role-name", "", func(name string) error {
		t.Roles = append(t.Roles, &nomad.ACLTokenRoleLink{Name: name})
		return nil
	})
}
