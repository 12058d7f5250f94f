package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// roleOptions are those that say what a role is.
type roleOptions struct {
	name, description string
	policies          []string
}

func (o *roleOptions) bind(f *flags) {
	f.StringVar(&o.name, "name", "", "")
	f.StringVar(&o.description, "description", "", "")
	f.Func("policy", "", func(name string) error {
		o.policies = append(o.policies, name)
		return nil
	})
}

// role is a whole one.
func (o *roleOptions) role() (*nomad.ACLRole, error) {
	switch {
	case o.name == "":
		return nil, errors.New("ACL role name must be specified using the -name flag")
	case len(o.policies) == 0:
		return nil, errors.New("at least one policy name must be specified using the -policy flag")
	}
	r := &nomad.ACLRole{Name: o.name, Description: o.description}
	o.addPolicies(r)
	return r, nil
}

// addPolicies adds the policies that a role has not.
func (o *roleOptions) addPolicies(r *nomad.ACLRole) {
	for _, name := range o.policies {
		if !slices.ContainsFunc(r.Policies, func(has *nomad.ACLRolePolicyLink) bool { return has.Name == name }) {
			r.Policies = append(r.Policies, &nomad.ACLRolePolicyLink{Name: name})
		}
	}
}

// printRole prints a role for people, or for programs.
func (m meta) printRole(f *flags, r *nomad.ACLRole) int {
	if *f.json {
		return m.printJSON(r)
	}
	m.pairs([][2]string{
		{"ID", r.ID}, {"Name", r.Name}, {"Description", r.Description}, {"Policies", rolePolicies(r.Policies)},
		{"Create Index", fmt.Sprint(r.CreateIndex)}, {"Modify Index", fmt.Sprint(r.ModifyIndex)},
	})
	return 0
}

// rolePolicies names a role's policies, in order.
func rolePolicies(links []*nomad.ACLRolePolicyLink) string {
	names := make([]string, 0, len(links))
	for _, link := range links {
		names = append(names, link.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

type aclRoleCreateCommand struct{ meta }

// Synopsis implements [subcommand].
func (*aclRoleCreateCommand) Synopsis() string { return "Make a role" }

// Help implements [subcommand].
func (*aclRoleCreateCommand) Help() string {
	return `Usage: wasmnode acl role create [options]

  Makes a role: policies under one name, for tokens.

Options:

  -name=NAME         What it is called: 1 to 128 letters, digits and "-".
  -description=TEXT  What people read of it.
  -policy=NAME       A policy that it has; may be given several times.` + commonOptions
}

// Run implements [subcommand].
func (c *aclRoleCreateCommand) Run(args []string) int {
	f := c.flags("acl role create")
	var o roleOptions
	o.bind(f)
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	wanted, err := o.role()
	if err != nil {
		return c.fail(f, err)
	}
	role, _, err := client.ACLRoles().Create(wanted, nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.printRole(f, role)
}

type aclRoleUpdateCommand struct{ meta }

// Synopsis implements [subcommand].
func (*aclRoleUpdateCommand) Synopsis() string { return "Change a role" }

// Help implements [subcommand].
func (*aclRoleUpdateCommand) Help() string {
	return `Usage: wasmnode acl role update [options] ID

  Changes a role: what the tokens with it may do changes at once.

Options:

  -name=NAME         What it is called from now on.
  -description=TEXT  What people read of it.
  -policy=NAME       A policy more; may be given several times.
  -no-merge          Has it be what the options say and nothing else, with its ID alone.` + commonOptions
}

// Run implements [subcommand].
func (c *aclRoleUpdateCommand) Run(args []string) int {
	f := c.flags("acl role update")
	var o roleOptions
	o.bind(f)
	whole := f.Bool("no-merge", false, "")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	wanted, _, err := client.ACLRoles().Get(f.Arg(0), nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *whole {
		id := wanted.ID
		if wanted, err = o.role(); err != nil {
			return c.fail(f, err)
		}
		wanted.ID = id
	} else if err := o.change(wanted); err != nil {
		return c.fail(f, err)
	}
	role, _, err := client.ACLRoles().Update(wanted, nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.printRole(f, role)
}

// change changes what the options name of a role.
func (o *roleOptions) change(r *nomad.ACLRole) error {
	if o.name == "" && o.description == "" && len(o.policies) == 0 {
		return errors.New("please provide at least one flag to update the ACL role: -name, -description or -policy")
	}
	if o.name != "" {
		r.Name = o.name
	}
	if o.description != "" {
		r.Description = o.description
	}
	o.addPolicies(r)
	return nil
}

type aclRoleDeleteCommand struct{ meta }

// Synopsis implements [subcommand].
func (*aclRoleDeleteCommand) Synopsis() string { return "Delete a role" }

// Help implements [subcommand].
func (*aclRoleDeleteCommand) Help() string {
	return `Usage: wasmnode acl role delete [options] ID

  Deletes a role. Tokens with it stay, and may do less.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *aclRoleDeleteCommand) Run(args []string) int {
	f := c.flags("acl role delete")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	if _, err := client.ACLRoles().Delete(f.Arg(0), nil); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output(fmt.Sprintf("ACL role %s successfully deleted", f.Arg(0)))
	return 0
}

type aclRoleInfoCommand struct{ meta }

// Synopsis implements [subcommand].
func (*aclRoleInfoCommand) Synopsis() string { return "Show a role" }

// Help implements [subcommand].
func (*aclRoleInfoCommand) Help() string {
	return `Usage: wasmnode acl role info [options] ID

  Shows a role: any to who may read everything, and to others their own.

Options:

  -by-name  The argument is the role's name.` + commonOptions
}

// Run implements [subcommand].
func (c *aclRoleInfoCommand) Run(args []string) int {
	f := c.flags("acl role info")
	byName := f.Bool("by-name", false, "")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	find := client.ACLRoles().Get
	if *byName {
		find = client.ACLRoles().GetByName
	}
	role, _, err := find(f.Arg(0), nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.printRole(f, role)
}

type aclRoleListCommand struct{ meta }

// Synopsis implements [subcommand].
func (*aclRoleListCommand) Synopsis() string { return "List the roles" }

// Help implements [subcommand].
func (*aclRoleListCommand) Help() string {
	return `Usage: wasmnode acl role list [options]

  Lists the roles: all to who may read everything, and to others their own.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *aclRoleListCommand) Run(args []string) int {
	f := c.flags("acl role list")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	list, _, err := client.ACLRoles().List(nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(list)
	}
	if len(list) == 0 {
		c.ui.Output("No ACL roles found")
		return 0
	}
	rows := [][]string{{"ID", "Name", "Description", "Policies"}}
	for _, r := range list {
		rows = append(rows, []string{r.ID, r.Name, r.Description, rolePolicies(r.Policies)})
	}
	c.table(rows)
	return 0
}
