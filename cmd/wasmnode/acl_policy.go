package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"

	nomad "github.com/hashicorp/nomad/api"
)

type aclPolicyApplyCommand struct{ meta }

// Synopsis implements [subcommand].
func (*aclPolicyApplyCommand) Synopsis() string { return "Make a policy, or change one" }

// Help implements [subcommand].
func (*aclPolicyApplyCommand) Help() string {
	return `Usage: wasmnode acl policy apply [options] NAME FILE

  Makes a policy of the rules in a file ("-" reads standard input), or changes it: what
  tokens with it, or tasks that it is attached to, may do changes at once.

Options:

  -description=TEXT  What people read of it.
  -namespace=NAME    Attaches the policy to the tasks of a namespace, which have it with the
                     token of their identity, and when templates read variables.
  -job=JOB           Attaches it to those of a job in that alone.
  -group=GROUP       Attaches it to those of a group of the job.
  -task=TASK         Attaches it to a task of the group.` + commonOptions
}

// Run implements [subcommand].
func (c *aclPolicyApplyCommand) Run(args []string) int {
	f := c.flags("acl policy apply")
	p := &nomad.ACLPolicy{}
	f.StringVar(&p.Description, "description", "", "")
	var job nomad.JobACL
	f.StringVar(&job.JobID, "job", "", "")
	f.StringVar(&job.Group, "group", "", "")
	f.StringVar(&job.Task, "task", "", "")
	client := c.connect(f, args, 2, 2, c.Help())
	if client == nil {
		return 1
	}
	f.Visit(func(given *flag.Flag) {
		if given.Name == "namespace" { // not where the environment has one, as with Nomad
			job.Namespace = given.Value.String()
		}
	})
	switch {
	case job.JobID != "" && job.Namespace == "":
		return c.fail(f, errors.New("-namespace is required if -job is set"))
	case job.Group != "" && job.JobID == "":
		return c.fail(f, errors.New("-job is required if -group is set"))
	case job.Task != "" && job.Group == "":
		return c.fail(f, errors.New("-group is required if -task is set"))
	}
	rules, err := readFile(f.Arg(1))
	if err != nil {
		return c.fail(f, err)
	}
	p.Name, p.Rules = f.Arg(0), string(rules)
	if job != (nomad.JobACL{}) {
		p.JobACL = &job
	}
	if _, err := client.ACLPolicies().Upsert(p, nil); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output(fmt.Sprintf("Successfully wrote %q ACL policy!", p.Name))
	return 0
}

type aclPolicyDeleteCommand struct{ meta }

// Synopsis implements [subcommand].
func (*aclPolicyDeleteCommand) Synopsis() string { return "Delete a policy" }

// Help implements [subcommand].
func (*aclPolicyDeleteCommand) Help() string {
	return `Usage: wasmnode acl policy delete [options] NAME

  Deletes a policy. Tokens with it stay, and may do less.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *aclPolicyDeleteCommand) Run(args []string) int {
	f := c.flags("acl policy delete")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	if _, err := client.ACLPolicies().Delete(f.Arg(0), nil); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output(fmt.Sprintf("Successfully deleted %s policy!", f.Arg(0)))
	return 0
}

type aclPolicyInfoCommand struct{ meta }

// Synopsis implements [subcommand].
func (*aclPolicyInfoCommand) Synopsis() string { return "Show a policy" }

// Help implements [subcommand].
func (*aclPolicyInfoCommand) Help() string {
	return `Usage: wasmnode acl policy info [options] NAME

  Shows a policy and its rules: any to a manager's token, and to others their own.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *aclPolicyInfoCommand) Run(args []string) int {
	f := c.flags("acl policy info")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	p, _, err := client.ACLPolicies().Info(f.Arg(0), nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(p)
	}
	c.pairs([][2]string{
		{"Name", p.Name}, {"Description", p.Description},
		{"CreateIndex", fmt.Sprint(p.CreateIndex)}, {"ModifyIndex", fmt.Sprint(p.ModifyIndex)},
	})
	if j := p.JobACL; j != nil {
		c.ui.Output("\nAssociated Workload")
		c.pairs([][2]string{{"Namespace", j.Namespace}, {"JobID", j.JobID}, {"Group", j.Group}, {"Task", j.Task}})
	}
	c.ui.Output("\nRules\n\n" + p.Rules)
	return 0
}

type aclPolicyListCommand struct{ meta }

// Synopsis implements [subcommand].
func (*aclPolicyListCommand) Synopsis() string { return "List the policies" }

// Help implements [subcommand].
func (*aclPolicyListCommand) Help() string {
	return `Usage: wasmnode acl policy list [options]

  Lists the policies: all to who may read everything, and to others their own.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *aclPolicyListCommand) Run(args []string) int {
	f := c.flags("acl policy list")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	list, _, err := client.ACLPolicies().List(nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(list)
	}
	rows := [][]string{{"Name", "Description"}}
	for _, p := range list {
		rows = append(rows, []string{p.Name, p.Description})
	}
	c.table(rows)
	return 0
}

type aclPolicySelfCommand struct{ meta }

// Synopsis implements [subcommand].
func (*aclPolicySelfCommand) Synopsis() string { return "List the policies of the token in use" }

// Help implements [subcommand].
func (*aclPolicySelfCommand) Help() string {
	return `Usage: wasmnode acl policy self [options]

  Lists the policies of the token that -token or NOMAD_TOKEN has, its roles' too, or of the
  task whose identity it is of, and what they are attached to.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *aclPolicySelfCommand) Run(args []string) int {
	f := c.flags("acl policy self")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	// A task's token is of no ACL token: then the first answer is an error.
	if token, _, err := client.ACLTokens().Self(nil); err == nil && token.Type == "management" {
		c.ui.Output("This is a management token. No individual policies are assigned.")
		return 0
	}
	list, _, err := client.ACLPolicies().Self(nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(list)
	}
	if len(list) == 0 {
		c.ui.Output("No policies found.")
		return 0
	}
	rows := [][]string{{"Name", "Job ID", "Group Name", "Task Name"}}
	for _, p := range list {
		row := []string{p.Name, "<unavailable>", "<unavailable>", "<unavailable>"}
		if j := p.JobACL; j != nil {
			row = []string{p.Name, cmp.Or(j.JobID, "<not specified>"), cmp.Or(j.Group, "<not specified>"), cmp.Or(j.Task, "<not specified>")}
		}
		rows = append(rows, row)
	}
	c.table(rows)
	return 0
}
