package main

import (
	"errors"
	"fmt"
	"slices"

	nomad "github.com/hashicorp/nomad/api"
)

// allocationPick is how a command line names an allocation: by its own ID, or as one of a
// job's.
type allocationPick struct {
	job   bool
	group string
}

// pickOptions are the options of [allocationPick].
const pickOptions = `
  -job           ALLOC is a job: pick one of its allocations, the newest that runs first.
  -group=GROUP   With -job: one of that group.`

func (p *allocationPick) bind(f *flags) {
	f.BoolVar(&p.job, "job", false, "")
	f.StringVar(&p.group, "group", "", "")
}

// find returns the allocation.
func (p *allocationPick) find(client *nomad.Client, id string) (*nomad.Allocation, error) {
	switch {
	case !p.job && p.group != "":
		return nil, errors.New("-group is of a job: say -job, too")
	case !p.job:
		return findAllocation(client, id)
	}
	job, err := findJob(client, id)
	if err != nil {
		return nil, err
	}
	stubs, _, err := client.Jobs().Allocations(*job.ID, false, nil)
	if err != nil {
		return nil, err
	}
	stubs = slices.DeleteFunc(stubs, func(s *nomad.AllocationListStub) bool { return p.group != "" && s.TaskGroup != p.group })
	if len(stubs) == 0 {
		if p.group != "" {
			return nil, fmt.Errorf("job %q has no allocations of group %q", *job.ID, p.group)
		}
		return nil, fmt.Errorf("job %q has no allocations", *job.ID)
	}
	best := slices.MaxFunc(stubs, func(a, b *nomad.AllocationListStub) int {
		if (a.ClientStatus == "running") != (b.ClientStatus == "running") {
			if a.ClientStatus == "running" {
				return 1
			}
			return -1
		}
		return int(a.CreateIndex) - int(b.CreateIndex)
	})
	alloc, _, err := client.Allocations().Info(best.ID, nil)
	return alloc, err
}
