package main

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"

	nomad "github.com/hashicorp/nomad/api"
)

type serviceInfoCommand struct{ meta }

// Synopsis implements [subcommand].
func (*serviceInfoCommand) Synopsis() string { return "Show where a service is registered" }

// Help implements [subcommand].
func (*serviceInfoCommand) Help() string {
	return `Usage: wasmnode service info [options] SERVICE

  Shows the registrations of a service: where each is, and whose it is. SERVICE may be the
  beginning of a name.

Options:

  -filter=TEXT    Only those that an expression of the API's filter language fits.
  -per-page=N     At most so many, and what the next page begins with.
  -page-token=ID  Begin with this one.` + commonOptions
}

// Run implements [subcommand].
func (c *serviceInfoCommand) Run(args []string) int {
	f := c.flags("service info")
	var l listFlags
	l.bind(f)
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	namespace, name, err := c.find(f, client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	q := l.query()
	q.Namespace = namespace
	list, meta, err := client.Services().Get(name, q)
	switch {
	case err != nil:
		return c.fail(f, err)
	case *f.json:
		return c.printJSON(list)
	case len(list) == 0:
		c.ui.Output("No service registrations found")
		return 0
	}
	slices.SortStableFunc(list, func(a, b *nomad.ServiceRegistration) int { return cmp.Compare(a.JobID, b.JobID) })
	c.show(f, list)
	c.more(meta)
	return 0
}

// find returns the service that a text is the name of, or the only one whose name begins so.
func (c *serviceInfoCommand) find(f *flags, client *nomad.Client, text string) (namespace, name string, err error) {
	list, _, err := client.Services().List(&nomad.QueryOptions{Prefix: text})
	if err != nil {
		return "", "", err
	}
	var fits []string
	for _, in := range list {
		for _, s := range in.Services {
			if s.ServiceName == text && f.namespace != nomad.AllNamespacesNamespace {
				return in.Namespace, text, nil
			}
			namespace, name = in.Namespace, s.ServiceName
			fits = append(fits, name)
		}
	}
	switch len(fits) {
	case 0:
		return "", "", fmt.Errorf("No service registrations with prefix %q found", text) //nolint:staticcheck // Nomad's text
	case 1:
		return namespace, name, nil
	}
	c.serviceTable(f, list)
	return "", "", fmt.Errorf("Prefix matched multiple services") //nolint:staticcheck // Nomad's text
}

func (c *serviceInfoCommand) show(f *flags, list []*nomad.ServiceRegistration) {
	if *f.verbose {
		for i, s := range list {
			if i > 0 {
				c.ui.Output("")
			}
			c.pairs([][2]string{
				{"ID", s.ID},
				{"Service Name", s.ServiceName},
				{"Namespace", s.Namespace},
				{"Job ID", s.JobID},
				{"Alloc ID", s.AllocID},
				{"Node ID", s.NodeID},
				{"Datacenter", s.Datacenter},
				{"Address", serviceAddress(s)},
				{"Tags", serviceTags(s.Tags)},
			})
		}
		return
	}
	rows := [][]string{{"Job ID", "Address", "Tags", "Node ID", "Alloc ID"}}
	for _, s := range list {
		rows = append(rows, []string{s.JobID, serviceAddress(s), serviceTags(s.Tags), f.short(s.NodeID), f.short(s.AllocID)})
	}
	c.table(rows)
}

func serviceAddress(s *nomad.ServiceRegistration) string {
	if s.Port == 0 {
		return s.Address
	}
	return net.JoinHostPort(s.Address, strconv.Itoa(s.Port))
}
