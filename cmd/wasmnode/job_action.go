package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

type jobActionCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobActionCommand) Synopsis() string { return "Run an action of a job in a running task" }

// Help implements [subcommand].
func (*jobActionCommand) Help() string {
	return `Usage: wasmnode job action [options] -job=JOB ACTION

  Runs a command that a task's action block names in that task, as alloc exec does. The
  exit code is the command's. Without an allocation one that runs is taken.

Options:

  -job=JOB            The job.
  -group=GROUP        The group whose task has the action; can be left out where one has.
  -task=TASK          The task that has the action; can be left out where one has.
  -alloc=ALLOC        The allocation.
  -i                  Pass standard input on; true.
  -t                  Give the command a terminal; true where this one has one.
  -e=CHAR             Ends a session on a terminal, as with alloc exec.` + commonOptions
}

// action is what is asked for.
type action struct {
	name, job, group, task, alloc string
}

// Run implements [subcommand].
func (c *jobActionCommand) Run(args []string) int {
	f := c.flags("job action")
	var a action
	f.StringVar(&a.job, "job", "", "")
	f.StringVar(&a.group, "group", "", "")
	f.StringVar(&a.task, "task", "", "")
	f.StringVar(&a.alloc, "alloc", "", "")
	input := f.Bool("i", true, "")
	tty := f.Bool("t", isTerminal(os.Stdin) && isTerminal(os.Stdout), "")
	char := f.String("e", "~", "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	a.name = f.Arg(0)
	escapeChar, err := parseEscape(*char)
	switch {
	case err != nil:
		return c.fail(f, err)
	case a.job == "":
		return c.fail(f, errors.New("the job is missing: name it with -job"))
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	alloc, err := a.find(client)
	if err != nil {
		return c.fail(f, err)
	}
	s := &execSession{client: client, alloc: alloc, task: a.task, action: a.name, tty: *tty, stdin: strings.NewReader("")}
	if *input {
		s.stdin = os.Stdin
	}
	code, err := s.run(escapeChar)
	if err != nil {
		return c.fail(f, err)
	}
	return code
}

// find fills in the group and the task, and returns an allocation of theirs.
func (a *action) find(client *nomad.Client) (*nomad.Allocation, error) {
	job, err := findJob(client, a.job)
	if err != nil {
		return nil, err
	}
	if err := a.locate(job); err != nil {
		return nil, err
	}
	if a.alloc != "" {
		return findAllocation(client, a.alloc)
	}
	allocs, _, err := client.Jobs().Allocations(*job.ID, false, nil)
	if err != nil {
		return nil, err
	}
	for _, s := range allocs {
		if s.ClientStatus == nomad.AllocClientStatusRunning && s.TaskGroup == a.group {
			alloc, _, err := client.Allocations().Info(s.ID, nil)
			return alloc, err
		}
	}
	return nil, fmt.Errorf("no allocation of group %q of job %q is running", a.group, *job.ID)
}

// locate finds the one task that has the action.
func (a *action) locate(job *nomad.Job) error {
	var found [][2]string
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			has := slices.ContainsFunc(t.Actions, func(x *nomad.Action) bool { return x.Name == a.name })
			if has && (a.group == "" || a.group == *g.Name) && (a.task == "" || a.task == t.Name) {
				found = append(found, [2]string{*g.Name, t.Name})
			}
		}
	}
	switch len(found) {
	case 0:
		return fmt.Errorf("job %q has no action %q there", *job.ID, a.name)
	case 1:
		a.group, a.task = found[0][0], found[0][1]
		return nil
	}
	return fmt.Errorf("%d tasks of job %q have an action %q: name one with -group and -task", len(found), *job.ID, a.name)
}
