package main

import (
	"fmt"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

type jobDispatchCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobDispatchCommand) Synopsis() string { return "Dispatch a parameterized job" }

// Help implements [subcommand].
func (*jobDispatchCommand) Help() string {
	return `Usage: wasmnode job dispatch [options] JOB [FILE]

  Makes a child of a parameterized job and follows it until it has started. The payload
  is what is in FILE ("-" reads standard input): at most 16 KiB. JOB may be the beginning
  of an ID. Children are listed by job status JOB.

Options:

  -meta=NAME=VALUE         Give the child a value of its meta; may be given several times.
  -detach                  Do not follow: print the IDs and return.
  -id-prefix-template=TEXT Have the child's ID be JOB/dispatch-TEXT-TIME-RANDOM.
  -idempotency-token=TEXT  Make no child if one was made with the same text.
  -priority=N              Give the child a priority of its own: 1 to 100.` + commonOptions
}

// Run implements [subcommand].
func (c *jobDispatchCommand) Run(args []string) int {
	f := c.flags("job dispatch")
	req := &nomad.DispatchOptions{Meta: map[string]string{}}
	f.Func("meta", "", func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return fmt.Errorf("%q is not of the form NAME=VALUE", s)
		}
		req.Meta[name] = value
		return nil
	})
	detach := f.Bool("detach", false, "")
	token := f.String("idempotency-token", "", "")
	f.StringVar(&req.IdPrefixTemplate, "id-prefix-template", "", "")
	f.IntVar(&req.Priority, "priority", 0, "")
	if !c.parse(f, args, 1, 2, c.Help()) {
		return 1
	}
	var err error
	if f.NArg() > 1 {
		if req.Payload, err = readFile(f.Arg(1)); err != nil {
			return c.fail(f, err)
		}
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	if req.JobID, err = findParent(client, f.Arg(0), "parameterized job", "ParameterizedJob is not nil"); err != nil {
		return c.fail(f, err)
	}
	resp, _, err := client.Jobs().DispatchOpts(req, &nomad.WriteOptions{IdempotencyToken: *token})
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(resp)
	}
	made := [][2]string{{"Dispatched Job ID", resp.DispatchedJobID}}
	if resp.EvalID != "" {
		made = append(made, [2]string{"Evaluation ID", f.short(resp.EvalID)})
	}
	c.pairs(made)
	if *detach || resp.EvalID == "" {
		return 0
	}
	c.ui.Output("")
	return (&monitor{meta: c.meta, client: client, flags: f}).follow(resp.EvalID)
}

// findParent returns the ID of the one job of a kind, and no child of another, whose ID is, or
// begins with, a text.
func findParent(c *nomad.Client, id, kind, filter string) (string, error) {
	stubs, _, err := c.Jobs().List(&nomad.QueryOptions{Prefix: id, Filter: `ParentID == "" and ` + filter})
	if err != nil {
		return "", err
	}
	var matches []string
	for _, s := range stubs {
		if s.ID == id {
			return id, nil
		}
		matches = append(matches, s.ID)
	}
	return one(kind, id, matches)
}
