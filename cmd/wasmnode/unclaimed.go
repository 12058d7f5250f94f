package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// unclaimedPath is where the API has what is unclaimed.
const unclaimedPath = "/v1/operator/unclaimed"

// unclaimed is what runs on the node and is not known to be wanted.
type unclaimed struct {
	AllocID, JobID, TaskGroup, Reason string
	Adoptable                         bool
}

// findUnclaimed returns what is unclaimed.
func findUnclaimed(client *nomad.Client) (list []unclaimed, err error) {
	_, err = client.Raw().Query(unclaimedPath, &list, nil)
	return list, err
}

// decide has a decision carried out on what is unclaimed: one, or all.
func (m meta) decide(decision, help string, args []string) int {
	f := m.flags("operator " + decision)
	all := f.Bool("all", false, "")
	if !m.parse(f, args, 0, 1, help) {
		return 1
	}
	if *all == (f.NArg() == 1) {
		return m.fail(f, errors.New("name one allocation, or give -all: wasmnode node status -self lists what is unclaimed"))
	}
	client, err := m.client(f)
	if err != nil {
		return m.fail(f, err)
	}
	list, err := findUnclaimed(client)
	if err != nil {
		return m.fail(f, err)
	}
	chosen := list
	if !*all {
		if chosen, err = withPrefix(list, f.Arg(0)); err != nil {
			return m.fail(f, err)
		}
	}
	return m.carryOut(f, client, decision, chosen)
}

// carryOut carries a decision out on each, and goes on when it fails for one.
func (m meta) carryOut(f *flags, client *nomad.Client, decision string, chosen []unclaimed) (code int) {
	done := map[string]string{"adopt": "Adopted", "discard": "Discarded"}[decision]
	for _, u := range chosen {
		_, err := client.Raw().Write(unclaimedPath+"/"+url.PathEscape(u.AllocID)+"/"+decision, nil, nil, nil)
		if err != nil {
			code = m.fail(f, err)
			continue
		}
		m.ui.Output(fmt.Sprintf("%s %s", done, f.short(u.AllocID)))
	}
	if len(chosen) == 0 {
		m.ui.Output("Nothing is unclaimed")
	}
	return code
}

func withPrefix(list []unclaimed, prefix string) ([]unclaimed, error) {
	var matches []string
	found := map[string]unclaimed{}
	for _, u := range list {
		if strings.HasPrefix(u.AllocID, prefix) {
			matches = append(matches, u.AllocID)
			found[u.AllocID] = u
		}
	}
	id, err := one("unclaimed allocation", prefix, matches)
	if err != nil {
		return nil, err
	}
	return []unclaimed{found[id]}, nil
}

// unclaimed lists what is unclaimed, if anything is. Nodes that are not ours have none.
func (c *nodeStatusCommand) unclaimed(f *flags, client *nomad.Client) {
	list, err := findUnclaimed(client)
	if err != nil || len(list) == 0 {
		return
	}
	c.ui.Output("\nUnclaimed (wasmnode operator adopt|discard decides)")
	rows := [][]string{{"ID", "Job", "Group", "Adoptable", "Reason"}}
	for _, u := range list {
		rows = append(rows, []string{f.short(u.AllocID), u.JobID, u.TaskGroup, fmt.Sprint(u.Adoptable), u.Reason})
	}
	c.table(rows)
}
