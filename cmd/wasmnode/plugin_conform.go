package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/hclvalue"
	"github.com/wasmnode/wasmnode/sdk/go/conform"
	"github.com/wasmnode/wasmnode/trial"
)

type pluginConformCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginConformCommand) Synopsis() string {
	return "Check whether a plugin does what the contract says, without a node"
}

// Help implements [subcommand].
func (*pluginConformCommand) Help() string {
	return `Usage: wasmnode plugin conform [options] FILE

  Tries a plugin's file on what the contract of plugins asks of every one: each operation
  with ordinary, empty, broken and large requests; tasks from their start to their end,
  with instances that are kept and that are thrown away; each use of a capability failed
  in three ways; handles that the plugin did not make; commands and networks, where it
  has them; the bounds of requests, handles, events and the log. No node is needed. What the plugin may do is
  what is granted here; its capabilities are real, and what it starts is ended.

  It prints a line a check: ok, FAIL or skip, its name, and why. The exit code is 0 if
  none failed, else 1.

Options:

  -config=PATH     A file or directory of an agent's configuration: the plugin's block
                   in it has what it is granted and its own configuration.
  -grant=TEXT      What the plugin is granted, as in the grant block of a configuration:
                   'kv { enabled = true }'. It may be given several times.
  -task=TEXT       What is in the config block of the tasks that are started, as in a job
                   file: 'command = "/bin/sleep"'. Without it, nothing.
  -timeout=5s      How long each call may take.
  -json            Print JSON.`
}

// Run implements [subcommand].
func (c *pluginConformCommand) Run(args []string) int {
	f := c.flags("plugin conform")
	set := trialFlags(f.FlagSet)
	task := f.String("task", "", "")
	timeout := f.Duration("timeout", 5*time.Second, "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	config, err := taskConfig("-task", *task)
	if err != nil {
		return c.fail(f, err)
	}
	report, err := checkPlugin(set, f.Arg(0), conform.Options{TaskConfig: config, Timeout: *timeout})
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return max(c.printJSON(report), failedChecks(report))
	}
	c.printChecks(report, true)
	return failedChecks(report)
}

// taskConfig reads what is in a config block, as JSON; where says where it was written.
func taskConfig(where, text string) ([]byte, error) {
	value, err := taskValue(where, text)
	if err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

// taskValue reads what is in a config block, as taskConfig does.
func taskValue(where, text string) (value map[string]any, err error) {
	body, diags := hclvalue.ParseFile(where, []byte(text))
	if !diags.HasErrors() {
		if value, diags = hclvalue.Body(body, nil); !diags.HasErrors() {
			return value, nil
		}
	}
	return nil, errors.New(strings.Join(hclvalue.Lines(diags), "; "))
}

// checkPlugin loads a plugin and checks it. One that no node would load has failed.
func checkPlugin(set *trialSet, file string, o conform.Options) (*conform.Report, error) {
	ctx := context.Background()
	if _, err := os.Stat(file); err != nil {
		return nil, err
	}
	// A plugin is made to fault: what is left of its allowance is not what is checked.
	t, err := set.open(ctx, file, trial.Config{Limits: host.Limits{CallTimeout: o.Timeout, CPUPerMinute: time.Minute}}, false)
	if err != nil {
		return &conform.Report{Plugin: file, Checks: []conform.Check{{Status: conform.Fail, Name: "load", Why: err.Error()}}}, nil
	}
	defer func() { _ = t.Close() }() // it has been checked
	if err := set.configure(ctx, t); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "wasmnode-conform-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	return t.Conform(ctx, dir, o), nil
}

// failedChecks is the exit code of a report: whether a check failed.
func failedChecks(r *conform.Report) int { return min(r.Count(conform.Fail), 1) }

// printChecks prints a line a check, those that are well only with all, and how many there were.
func (m meta) printChecks(r *conform.Report, all bool) {
	for _, check := range r.Checks {
		if check.Status != conform.OK || all {
			line := fmt.Sprintf("%-4s  %-28s  %s", check.Status, check.Name, harmless(check.Why))
			m.ui.Output(strings.TrimRight(line, " "))
		}
	}
	m.ui.Output(fmt.Sprintf("\n%s: %d ok, %d failed, %d skipped",
		strings.TrimSpace(harmless(r.Plugin+" "+r.Version)), r.Count(conform.OK), r.Count(conform.Fail), r.Count(conform.Skip)))
}
