package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/internal/boltfile"
)

type operatorEndTasksCommand struct{ meta }

// endTimeout bounds how long tasks may take to be gone: they are killed.
const endTimeout = 2 * time.Minute

// Synopsis implements [subcommand].
func (*operatorEndTasksCommand) Synopsis() string {
	return "End what runs of a node whose agent is down"
}

// Help implements [subcommand].
func (*operatorEndTasksCommand) Help() string {
	return `Usage: wasmnode operator end-tasks [options]

  Ends all tasks of a node at once, as a shutdown of the machine does: they outlive the
  agent, which has to be down. The networks of allocations are taken away, too. The jobs
  stay: the next agent starts again what is to run. To have tasks end in good order, or to
  have containers of the docker driver end, which are the engine's, drain the node before
  the agent is ended: wasmnode node drain -enable -self

Options:

  -config=FILE|DIR  The agent's configuration; may be given several times.
  -data-dir=DIR     The agent's data directory, if its configuration does not name it.`
}

// Run implements [subcommand].
func (c *operatorEndTasksCommand) Run(args []string) int {
	var o agent.Options
	f := flag.NewFlagSet("operator end-tasks", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Func("config", "", func(s string) error { o.ConfigPaths = append(o.ConfigPaths, s); return nil })
	f.StringVar(&o.DataDir, "data-dir", "", "")
	if code, ok := c.parseAlone(f, args, c.Help()); !ok {
		return code
	}
	if o.DataDir == "" && len(o.ConfigPaths) == 0 {
		c.misuse(c.Help(), "of which node? Name its configuration with -config, or its data directory with -data-dir")
		return 1
	}
	ctx, stop := interruptible()
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	ended, err := agent.EndTasks(ctx, o)
	if errors.Is(err, boltfile.ErrLocked) {
		err = fmt.Errorf("%w: end the agent first", err)
	}
	if err != nil {
		c.ui.Error("Error: " + strings.ReplaceAll(err.Error(), "\n", "; "))
		return 1
	}
	if ended.Newer {
		c.ui.Output("Nothing runs any more. A newer version wrote what the node knows of its allocations: their networks stay until the machine is restarted, or that version ends them")
		return 0
	}
	c.ui.Output(fmt.Sprintf("Nothing runs any more. The node knows of allocations: %d", ended.Allocations))
	return 0
}
