package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

type allocLogsCommand struct{ meta }

// Synopsis implements [subcommand].
func (*allocLogsCommand) Synopsis() string { return "Print what a task wrote" }

// Help implements [subcommand].
func (*allocLogsCommand) Help() string {
	return `Usage: wasmnode alloc logs [options] ALLOC [TASK]

  Prints a task's standard output. TASK can be left out when the allocation has
  one.

Options:

  -stderr   Print standard error instead.
  -f        Go on until the task ends or the command is interrupted.
  -tail     Begin near the end.
  -n=N      With -tail: the last N lines; 10.
  -c=N      With -tail: the last N bytes.
  -job      ALLOC is a job: pick one of its allocations, a running one first.` + commonOptions
}

// tailLineBytes is how long a line is taken to be when -n asks for lines, as Nomad
// does; what is fetched too much is cut.
const tailLineBytes = 120

// Run implements [subcommand].
func (c *allocLogsCommand) Run(args []string) int {
	f := c.flags("alloc logs")
	stderr := f.Bool("stderr", false, "")
	follow := f.Bool("f", false, "")
	tail := f.Bool("tail", false, "")
	lines := f.Int64("n", 10, "")
	bytes := f.Int64("c", 0, "")
	byJob := f.Bool("job", false, "")
	client := c.connect(f, args, 1, 2, c.Help())
	if client == nil {
		return 1
	}
	alloc, err := c.find(client, f.Arg(0), *byJob)
	if err != nil {
		return c.fail(f, err)
	}
	task, err := taskOf(alloc, f.Arg(1))
	if err != nil {
		return c.fail(f, err)
	}
	stream := "stdout"
	if *stderr {
		stream = "stderr"
	}
	origin, offset := nomad.OriginStart, int64(0)
	keep := int64(-1)
	switch {
	case *tail && *bytes > 0:
		origin, offset = nomad.OriginEnd, *bytes
	case *tail:
		origin, offset, keep = nomad.OriginEnd, *lines*tailLineBytes, *lines
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	frames, errs := client.AllocFS().Logs(alloc, *follow, task, stream, origin, offset, ctx.Done(), nil)
	if err := copyFrames(ctx, os.Stdout, frames, errs, keep); err != nil {
		return c.fail(f, err)
	}
	return 0
}

// find returns the allocation whose logs are wanted.
func (c *allocLogsCommand) find(client *nomad.Client, id string, byJob bool) (*nomad.Allocation, error) {
	if !byJob {
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
	if len(stubs) == 0 {
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

// taskOf returns a task's name, which can be left out when there is only one.
func taskOf(a *nomad.Allocation, name string) (string, error) {
	var names []string
	for _, t := range a.GetTaskGroup().Tasks {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	switch {
	case name != "" && !slices.Contains(names, name):
		return "", fmt.Errorf("allocation %s has no task %q, but %s", a.ID[:shortID], name, strings.Join(names, ", "))
	case name != "":
		return name, nil
	case len(names) == 1:
		return names[0], nil
	}
	return "", fmt.Errorf("allocation %s has several tasks: name one of %s", a.ID[:shortID], strings.Join(names, ", "))
}

// copyFrames writes frames until they end. When keep is not negative, of what was
// there at first only the last that many lines are written.
func copyFrames(ctx context.Context, w io.Writer, frames <-chan *nomad.StreamFrame, errs <-chan error, keep int64) error {
	var held []byte
	flush := func() error {
		text := lastLines(string(held), keep)
		held, keep = nil, -1
		_, err := io.WriteString(w, text)
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-errs:
			if err == nil || errors.Is(err, io.EOF) {
				return flush()
			}
			return err
		case frame, ok := <-frames:
			if !ok {
				return flush()
			}
			switch {
			case keep >= 0 && frame.IsHeartbeat():
				if err := flush(); err != nil {
					return err
				}
			case keep >= 0:
				held = append(held, frame.Data...)
			default:
				if _, err := w.Write(frame.Data); err != nil {
					return err
				}
			}
		}
	}
}

// lastLines cuts a text to its last n lines; a negative n keeps all.
func lastLines(s string, n int64) string {
	if n < 0 {
		return s
	}
	end := len(s)
	if strings.HasSuffix(s, "\n") {
		end--
	}
	for i := end - 1; i >= 0; i-- {
		if s[i] == '\n' {
			if n--; n == 0 {
				return s[i+1:]
			}
		}
	}
	return s
}
