package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/trial"
)

type pluginReplayCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginReplayCommand) Synopsis() string {
	return "Repeat recorded calls of a plugin with another build of it"
}

// Help implements [subcommand].
func (*pluginReplayCommand) Help() string {
	return `Usage: wasmnode plugin replay [options] FILE RECORDING

  Makes the calls of a recording again, with a plugin's file that may be another build
  than the recorded one. What the plugin asks the node for is compared with what it asked
  for then, in its order, and answered as then: no capability is real, and no node is
  needed. So are its clock and its random numbers as they were, and so is what it does by
  WASI with files, none of which is read or written. Its log is not compared. plugin
  record makes recordings.

  The first difference is told with both sides. The exit code is 0 if there is none, and
  no fault of -sweep is bad, else 1.

Options:

  -sweep           Then fail each use of a capability, one in a call: as UNAVAILABLE, as
                   PERMISSION_DENIED and as DEADLINE_EXCEEDED; of a file as EIO, EACCES
                   and EINTR. It is told what the plugin made of it (an error, a fault,
                   or success) and whether the call works when it is made again. A fault,
                   and a call that does not work again, are bad.
  -timeout=10s     How long each call may take.
  -json            Print JSON.`
}

// replayed is the outcome of a replay, for programs.
type replayed struct {
	Calls      int
	Difference *trial.Difference
	Faults     []*trial.SweptFault // with -sweep
}

// Run implements [subcommand].
func (c *pluginReplayCommand) Run(args []string) int {
	f := c.flags("plugin replay")
	sweep := f.Bool("sweep", false, "")
	timeout := f.Duration("timeout", 10*time.Second, "")
	if !c.parse(f, args, 2, 2, c.Help()) {
		return 1
	}
	out, err := replayPlugin(f.Arg(0), f.Arg(1), *sweep, *timeout)
	if err != nil {
		return c.fail(f, err)
	}
	return c.print(f, out, *sweep)
}

// replayTime is how long a plugin may compute in a minute while its calls are repeated: a sweep
// is made as fast as the machine can.
const replayTime = time.Hour

func replayPlugin(file, recording string, sweep bool, timeout time.Duration) (*replayed, error) {
	ctx := context.Background()
	r, err := readRecording(recording)
	if err != nil {
		return nil, err
	}
	t, err := (&trialSet{}).open(ctx, file, trial.Config{Limits: host.Limits{CallTimeout: timeout, CPUPerMinute: replayTime}, Repeatable: true}, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = t.Close() }() // it has been replayed
	if name := t.Plugin().Name(); name != r.Plugin {
		return nil, fmt.Errorf("%s is a recording of plugin %s, and %s is %s", recording, harmless(r.Plugin), file, name)
	}
	dir, err := os.MkdirTemp("", "wasmnode-replay-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := &replayed{Calls: len(r.Calls)}
	if sweep {
		out.Faults = []*trial.SweptFault{}
		err = t.Sweep(ctx, r, dir, timeout, func(f *trial.SweptFault) { out.Faults = append(out.Faults, f) })
	} else {
		err = t.Replay(ctx, r, dir, timeout)
	}
	if errors.As(err, &out.Difference) {
		err = nil
	}
	return out, err
}

// print prints an outcome, and returns the exit code.
func (c *pluginReplayCommand) print(f *flags, out *replayed, sweep bool) int {
	code, bad := 0, 0
	for _, fault := range out.Faults {
		if fault.Bad() {
			bad++
		}
	}
	if out.Difference != nil || bad > 0 {
		code = 1
	}
	switch {
	case *f.json:
		return max(code, c.printJSON(out))
	case out.Difference != nil:
		c.difference(out.Difference)
		return code
	}
	c.ui.Output(counted(out.Calls, "call") + ", each as recorded")
	if sweep {
		c.faults(out.Faults, bad)
	}
	return code
}

func (c *pluginReplayCommand) difference(d *trial.Difference) {
	c.ui.Error("Error: " + harmless(d.Error()))
	for _, p := range d.Paths {
		if p.Path != "" {
			c.ui.Output("\n" + harmless(p.Path))
		}
		c.sides(p.Recorded, p.Now)
	}
	if len(d.Paths) == 0 {
		c.sides(d.Recorded, d.Now)
	}
}

// mostShown is how much of a side is shown, in bytes.
const mostShown = 2 << 10

func (c *pluginReplayCommand) sides(recorded, now []byte) {
	for _, s := range []struct {
		name string
		json []byte
	}{{"recorded", recorded}, {"now", now}} {
		text := "nothing"
		if len(s.json) > 0 {
			text = harmless(string(s.json[:min(len(s.json), mostShown)]))
		}
		if len(s.json) > mostShown {
			text += "…"
		}
		c.ui.Output(fmt.Sprintf("  %-8s  %s", s.name, text))
	}
}

func (c *pluginReplayCommand) faults(faults []*trial.SweptFault, bad int) {
	rows := [][]string{{"Call", "Operation", "Use", "Failed With", "Answer", "Again"}}
	for _, s := range faults {
		answer, again := harmless(s.Text), "works"
		if s.Ending == trial.Claimed {
			answer = "success, with another answer than recorded"
			if s.Same {
				answer = "success, as recorded"
			}
			if s.Repeated {
				answer += ": it asked again"
			}
		}
		if s.Retry != "" {
			again = harmless(s.Retry)
		}
		rows = append(rows, []string{fmt.Sprint(s.Call), s.Op, fmt.Sprintf("%d: %s", s.Use, s.Capability), s.Failure, answer, again})
	}
	if len(faults) > 0 {
		c.ui.Output("")
		c.table(rows)
	}
	c.ui.Output(fmt.Sprintf("\n%s, %d bad", counted(len(faults), "fault"), bad))
}
