package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

type nodeDrainCommand struct{ meta }

// Synopsis implements [subcommand].
func (*nodeDrainCommand) Synopsis() string { return "Empty a node, or stop doing so" }

// Help implements [subcommand].
func (*nodeDrainCommand) Help() string {
	return `Usage: wasmnode node drain [options] [NODE]

  Has a node's allocations stop or, with -disable, a drain end, and follows it. The
  allocations of services stop in batches, as their migrate blocks have it; batch jobs
  go on until the deadline; system jobs stop when all others have ended. Afterwards the
  node takes no new allocations until "node eligibility -enable". NODE may be the
  beginning of an ID.

Options:

  -enable            Drain the node.
  -disable           Do not drain it any more, and have it take new allocations.
  -monitor           Only follow the drain of the node.
  -deadline=TIME     When what is left is stopped; 1h.
  -force             Stop everything at once.
  -no-deadline       Wait for as long as it takes.
  -ignore-system     Leave the allocations of system jobs alone.
  -keep-ineligible   With -disable: have it take no new allocations.
  -m=TEXT            Why; kept with the drain.
  -meta=KEY=VALUE    What else is to be kept with it; may be given several times.
  -self              The node that answers.
  -detach            Do not follow the drain.
  -yes               Do not ask whether the node is the one that is meant.` + commonOptions
}

// drainFlags are the command's.
type drainFlags struct {
	enable, disable, monitor         bool
	force, noDeadline, ignoreSystem  bool
	keepIneligible, self, detach, ok bool
	deadline                         time.Duration
	deadlineSet                      bool
	meta                             map[string]string
}

func (d *drainFlags) bind(f *flags) {
	d.meta, d.deadline = map[string]string{}, time.Hour
	f.BoolVar(&d.enable, "enable", false, "")
	f.BoolVar(&d.disable, "disable", false, "")
	f.BoolVar(&d.monitor, "monitor", false, "")
	f.BoolVar(&d.force, "force", false, "")
	f.BoolVar(&d.noDeadline, "no-deadline", false, "")
	f.BoolVar(&d.ignoreSystem, "ignore-system", false, "")
	f.BoolVar(&d.keepIneligible, "keep-ineligible", false, "")
	f.BoolVar(&d.self, "self", false, "")
	f.BoolVar(&d.detach, "detach", false, "")
	f.BoolVar(&d.ok, "yes", false, "")
	f.Func("deadline", "", func(text string) (err error) {
		if d.deadline, err = time.ParseDuration(text); err == nil && d.deadline <= 0 {
			err = errors.New("not above 0; -force stops everything at once")
		}
		d.deadlineSet = true
		return err
	})
	f.Func("m", "", func(text string) error { d.meta["message"] = text; return nil })
	f.Func("meta", "", func(text string) error {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return errors.New("not of the form KEY=VALUE")
		}
		d.meta[key] = value
		return nil
	})
}

// contradiction is what is wrong with the flags together; nil: nothing.
func (d *drainFlags) contradiction() error {
	bounds := 0
	for _, set := range []bool{d.force, d.noDeadline, d.deadlineSet} {
		if set {
			bounds++
		}
	}
	switch {
	case d.monitor && (d.enable || d.disable):
		return errors.New("-monitor only follows a drain: it goes with neither -enable nor -disable")
	case d.monitor:
		return nil
	case d.enable == d.disable:
		return errors.New("either -enable or -disable has to be set, or -monitor")
	case bounds > 1:
		return errors.New("-deadline, -force and -no-deadline are three bounds: one of them")
	case d.disable && (bounds > 0 || d.ignoreSystem):
		return errors.New("-deadline, -force, -no-deadline and -ignore-system say how to drain: they do not go with -disable")
	case d.enable && d.keepIneligible:
		return errors.New("-keep-ineligible goes with -disable: a node that is drained is ineligible")
	}
	return nil
}

// request is what is asked of the node.
func (d *drainFlags) request() *nomad.DrainOptions {
	req := &nomad.DrainOptions{MarkEligible: d.disable && !d.keepIneligible, Meta: d.meta}
	if d.disable {
		return req
	}
	req.DrainSpec = &nomad.DrainSpec{Deadline: d.deadline, IgnoreSystemJobs: d.ignoreSystem}
	switch {
	case d.force:
		req.DrainSpec.Deadline = -time.Second
	case d.noDeadline:
		req.DrainSpec.Deadline = 0
	}
	return req
}

// Run implements [subcommand].
func (c *nodeDrainCommand) Run(args []string) int {
	f := c.flags("node drain")
	var d drainFlags
	d.bind(f)
	if !c.parse(f, args, 0, 1, c.Help()) {
		return 1
	}
	if err := d.contradiction(); err != nil {
		return c.fail(f, err)
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	node, err := nodeOf(client, d.self, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	if d.monitor {
		return c.resume(client, node)
	}
	verb, done := "enable", "set"
	if d.disable {
		verb, done = "disable", "unset"
	}
	if meant := d.self || f.Arg(0) == node.ID || d.ok; !meant {
		if err := c.confirm(fmt.Sprintf("Are you sure you want to %s drain mode for node %q?", verb, node.ID)); err != nil {
			return c.fail(f, err)
		}
	}
	resp, err := client.Nodes().UpdateDrainOpts(node.ID, d.request(), nil)
	if err != nil {
		return c.fail(f, err)
	}
	said := fmt.Sprintf("Node %q drain strategy %s", node.ID, done)
	if d.disable || d.detach {
		c.ui.Output(said)
		return 0
	}
	c.ui.Output(now() + ": Ctrl-C to stop monitoring: will not cancel the node drain")
	c.ui.Output(now() + ": " + said)
	return c.follow(client, node.ID, resp.NodeModifyIndex, d.ignoreSystem)
}

// resume follows a drain that has begun before.
func (c *nodeDrainCommand) resume(client *nomad.Client, n *nomad.Node) int {
	if n.DrainStrategy == nil {
		c.ui.Output("No drain strategy set")
		return 0
	}
	c.ui.Output(now() + ": Monitoring node " + fmt.Sprintf("%q", n.ID) + ": Ctrl-C to detach monitoring")
	return c.follow(client, n.ID, 0, n.DrainStrategy.IgnoreSystemJobs)
}

// follow prints what becomes of a drain until it is complete and all allocations have
// stopped, or somebody interrupts it.
func (c *nodeDrainCommand) follow(client *nomad.Client, nodeID string, index uint64, ignoreSystem bool) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	code := 0
	for m := range client.Nodes().MonitorDrain(ctx, nodeID, index, ignoreSystem) {
		line := now() + ": " + m.String()
		switch m.Level {
		case nomad.MonitorMsgLevelWarn:
			c.ui.Warn(line)
		case nomad.MonitorMsgLevelError:
			c.ui.Error(line)
			code = 1
		default:
			c.ui.Output(line)
		}
	}
	return code
}
