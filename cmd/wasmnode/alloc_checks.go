package main

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

type allocChecksCommand struct{ meta }

// Synopsis implements [subcommand].
func (*allocChecksCommand) Synopsis() string {
	return "Show what the checks of an allocation found last"
}

// Help implements [subcommand].
func (*allocChecksCommand) Help() string {
	return `Usage: wasmnode alloc checks [options] ALLOC

  Shows the checks of an allocation's services and what each found last. ALLOC may be
  the beginning of an ID.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *allocChecksCommand) Run(args []string) int {
	f := c.flags("alloc checks")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	alloc, err := findAllocation(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	results, err := client.Allocations().Checks(alloc.ID, nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(results)
	}
	c.show(f, alloc, results)
	return 0
}

func (c *allocChecksCommand) show(f *flags, alloc *nomad.Allocation, results nomad.AllocCheckStatuses) {
	if len(results) == 0 {
		why := "Its services have none."
		if alloc.ClientStatus != "running" {
			why = "It is " + alloc.ClientStatus + ": checks are made while an allocation runs."
		}
		c.ui.Output("Allocation " + strconv.Quote(f.short(alloc.ID)) + " has no checks. " + why)
		return
	}
	for i, r := range sortedChecks(results) {
		if i > 0 {
			c.ui.Output("")
		}
		c.check(f, r)
	}
}

func (c *allocChecksCommand) check(f *flags, r nomad.AllocCheckStatus) {
	at := "N/A"
	if r.Timestamp > 0 {
		at = stamp(r.Timestamp * 1e9)
	}
	pairs := [][2]string{{"ID", f.short(r.ID)}, {"Name", r.Check}, {"Group", r.Group}}
	if r.Task != "" {
		pairs = append(pairs, [2]string{"Task", r.Task})
	}
	pairs = append(pairs, [2]string{"Service", r.Service}, [2]string{"Status", r.Status})
	if r.StatusCode != 0 {
		pairs = append(pairs, [2]string{"Status Code", strconv.Itoa(r.StatusCode)})
	}
	c.pairs(append(pairs, [2]string{"Mode", r.Mode}, [2]string{"Timestamp", at}, [2]string{"Output", strings.TrimSpace(r.Output)}))
}

func sortedChecks(results nomad.AllocCheckStatuses) []nomad.AllocCheckStatus {
	return slices.SortedFunc(maps.Values(results), func(a, b nomad.AllocCheckStatus) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Check, b.Check), cmp.Compare(a.ID, b.ID))
	})
}
