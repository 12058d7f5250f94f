package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host"
)

type pluginTraceCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginTraceCommand) Synopsis() string { return "Follow the calls of a plugin" }

// Help implements [subcommand].
func (*pluginTraceCommand) Help() string {
	return `Usage: wasmnode plugin trace [options] NAME

  Prints each call of a plugin that begins from now on, once it has ended, until the
  command is interrupted: the operation and its task, how long it took and how much of
  that was in the plugin, its outcome, and the capabilities that it used. Calls of
  another version of the plugin follow under the same name. Nothing of a task's
  configuration is shown but what errors say.

Options:

  -json    An object of JSON a line; times are in nanoseconds.` + commonOptions
}

// Run implements [subcommand].
func (c *pluginTraceCommand) Run(args []string) int {
	f := c.flags("plugin trace")
	s := c.stream(f, args, c.Help())
	if s == nil {
		return 1
	}
	s.begun = fmt.Sprintf("==> Calls of plugin %q from now on", f.Arg(0))
	return s.run("trace", func(line []byte) error {
		var t host.TracedCall
		if err := json.Unmarshal(line, &t); err != nil {
			return err
		}
		c.ui.Output(harmless(callText(f, t)))
		return nil
	})
}

func callText(f *flags, t host.TracedCall) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s%s: %s in %s, %s in the plugin", t.Time.Format(lineTime), t.Operation, taskText(f, t.AllocID, t.Task), callOutcome(t.Error), brief(t.Took), brief(t.Guest))
	for _, u := range t.Uses {
		fmt.Fprintf(&b, "\n    %s %s: %s in %s", strings.TrimPrefix(u.Module, abi.ModulePrefix), u.Function, callOutcome(u.Error), brief(u.Took))
	}
	if t.UsesLeft > 0 {
		fmt.Fprintf(&b, "\n    and %d more", t.UsesLeft)
	}
	return b.String()
}

func callOutcome(failure string) string {
	if failure == "" {
		return "ok"
	}
	return failure
}
