package main

import (
	"cmp"
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

  -stdout        Print standard output.
  -stderr        Print standard error instead.
  -f             Go on until the task ends or the command is interrupted: with both
                 outputs, unless one of them, or -tail, is given.
  -tail          Begin near the end.
  -n=N           With -tail: the last N lines; 10.
  -c=N           With -tail: the last N bytes.
  -task=TASK     The task, in place of TASK.` + pickOptions + commonOptions
}

// tailLineBytes is how long a line is taken to be when -n asks for lines, as Nomad
// does; what is fetched too much is cut.
const tailLineBytes = 120

// Run implements [subcommand].
func (c *allocLogsCommand) Run(args []string) int {
	f := c.flags("alloc logs")
	stdout, stderr := f.Bool("stdout", false, ""), f.Bool("stderr", false, "")
	follow := f.Bool("f", false, "")
	tail := f.Bool("tail", false, "")
	lines := f.Int64("n", 10, "")
	bytes := f.Int64("c", 0, "")
	name := f.String("task", "", "")
	var pick allocationPick
	pick.bind(f)
	client := c.connect(f, args, 1, 2, c.Help())
	if client == nil {
		return 1
	}
	alloc, err := pick.find(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	task, err := taskOf(alloc, cmp.Or(*name, f.Arg(1)))
	if err != nil {
		return c.fail(f, err)
	}
	streams := map[string]io.Writer{"stdout": os.Stdout}
	switch both := *follow && !*stdout && !*stderr && !*tail; {
	case both, *stdout && *stderr:
		streams["stderr"] = os.Stderr
	case *stderr:
		streams = map[string]io.Writer{"stderr": os.Stdout}
	}
	origin, offset, keep := tailOf(*tail, *lines, *bytes)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ended := make(chan error, len(streams))
	for stream, out := range streams {
		go func() {
			frames, errs := client.AllocFS().Logs(alloc, *follow, task, stream, origin, offset, ctx.Done(), nil)
			ended <- copyFrames(ctx, out, frames, errs, keep)
		}()
	}
	for range streams {
		if err := <-ended; err != nil {
			return c.fail(f, err)
		}
	}
	return 0
}

// tailOf is where to begin to read a file, and how many of the lines of what is there at
// first are wanted; a negative number: all.
func tailOf(tail bool, lines, bytes int64) (origin string, offset, keep int64) {
	switch {
	case !tail:
		return nomad.OriginStart, 0, -1
	case bytes > 0:
		return nomad.OriginEnd, bytes, -1
	}
	return nomad.OriginEnd, lines * tailLineBytes, lines
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
