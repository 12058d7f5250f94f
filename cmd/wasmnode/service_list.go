package main

import (
	"cmp"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

type serviceListCommand struct{ meta }

// Synopsis implements [subcommand].
func (*serviceListCommand) Synopsis() string { return "List the services that are registered" }

// Help implements [subcommand].
func (*serviceListCommand) Help() string {
	return `Usage: wasmnode service list [options]

  Lists the services that allocations have registered, with the tags of all of them.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *serviceListCommand) Run(args []string) int {
	f := c.flags("service list")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	list, _, err := client.Services().List(nil)
	switch {
	case err != nil:
		return c.fail(f, err)
	case *f.json:
		return c.printJSON(list)
	case len(list) == 0:
		c.ui.Output("No service registrations found")
	default:
		c.serviceTable(f, list)
	}
	return 0
}

// serviceTable lists services by their names, with their namespace where all are asked for.
func (m meta) serviceTable(f *flags, list []*nomad.ServiceRegistrationListStub) {
	all := f.namespace == nomad.AllNamespacesNamespace
	rows := [][]string{{"Service Name", "Tags"}}
	if all {
		rows[0] = []string{"Service Name", "Namespace", "Tags"}
	}
	slices.SortFunc(list, func(a, b *nomad.ServiceRegistrationListStub) int { return cmp.Compare(a.Namespace, b.Namespace) })
	for _, in := range list {
		slices.SortFunc(in.Services, func(a, b *nomad.ServiceRegistrationStub) int { return cmp.Compare(a.ServiceName, b.ServiceName) })
		for _, s := range in.Services {
			slices.Sort(s.Tags)
			row := []string{s.ServiceName, serviceTags(s.Tags)}
			if all {
				row = slices.Insert(row, 1, in.Namespace)
			}
			rows = append(rows, row)
		}
	}
	m.table(rows)
}

func serviceTags(tags []string) string { return "[" + strings.Join(tags, ",") + "]" }
