package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/trial"
)

type pluginBenchCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginBenchCommand) Synopsis() string { return "Measure a plugin, without a node" }

// Help implements [subcommand].
func (*pluginBenchCommand) Help() string {
	return `Usage: wasmnode plugin bench [options] FILE

  Measures how long a plugin takes to be compiled, to be loaded when its compiled code is
  kept, and to be called: the first call of an operation, for which an instance is made,
  and the others. Fuel is how often all of the others together were given it, each time for
  about 50 µs of the plugin's own code. With -task it starts tasks, which are real, and
  measures what is asked about each until it is destroyed.

Options:

  -config=PATH     A file or directory of an agent's configuration: the plugin's block
                   in it has what it is granted and its own configuration.
  -grant=TEXT      What the plugin is granted, as in the grant block of a configuration:
                   'kv { enabled = true }'. It may be given several times.
  -task=TEXT       What is in the config block of the tasks that are started, as in a job
                   file: 'run_for = "1h"'. Without it, none is.
  -calls=100       How often each operation is called, from 1 to 10000.
  -json            Print JSON.`
}

const maxBenchCalls = 10_000

// benched is what was measured of a plugin, for programs. Times are in nanoseconds.
type benched struct {
	Name, Version string
	Size          int           // of the file, in bytes
	Compiled      time.Duration // loaded without any compiled code
	Loaded        time.Duration // loaded with it
	Operations    []trial.Measured
}

// Run implements [subcommand].
func (c *pluginBenchCommand) Run(args []string) int {
	f := c.flags("plugin bench")
	set := trialFlags(f.FlagSet)
	task := f.String("task", "", "")
	calls := f.Int("calls", 100, "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	if *calls < 1 || *calls > maxBenchCalls {
		return c.fail(f, fmt.Errorf("-calls is %d: it is from 1 to %d", *calls, maxBenchCalls))
	}
	b, err := measureFile(context.Background(), set, f.Arg(0), *task, *calls)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(b)
	}
	c.pairs([][2]string{
		{"Plugin", harmless(b.Name + " " + b.Version)},
		{"Size", humanize.IBytes(uint64(b.Size))},
		{"Compiled", b.Compiled.Round(time.Millisecond).String()},
		{"Loaded", b.Loaded.Round(time.Millisecond).String()},
	})
	c.ui.Output("")
	rows := [][]string{{"Operation", "Calls", "Cold", "p50", "p99", "Fuel", "Memory"}}
	for _, m := range b.Operations {
		rows = append(rows, []string{m.Op, fmt.Sprint(m.Calls), short(m.Cold), short(m.P50), short(m.P99), fmt.Sprint(m.Fuel), humanize.IBytes(m.Memory)})
	}
	c.table(rows)
	return 0
}

// short is a time with the three digits that mean something; "-" for none.
func short(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// measureFile loads a plugin twice, without and with its compiled code, and calls it.
func measureFile(ctx context.Context, set *trialSet, file, task string, calls int) (b benched, err error) {
	wasm, err := trial.ReadFile(file)
	if err != nil {
		return b, err
	}
	b.Size, set.file = len(wasm), file
	dir, err := os.MkdirTemp("", "wasmnode-bench-")
	if err != nil {
		return b, err
	}
	defer os.RemoveAll(dir)
	cfg := trial.Config{
		Logger: hclog.NewNullLogger(), CacheDir: dir, Version: agent.Version,
		Limits: host.Limits{CPUPerMinute: time.Minute}, // of what it is allowed, nothing is measured
	}
	began := time.Now()
	first, err := trial.Open(ctx, wasm, cfg)
	if err != nil {
		return b, fmt.Errorf("%s: %w", file, err)
	}
	b.Compiled = time.Since(began)
	if err := first.Close(); err != nil { //nolint:contextcheck // closing is not given up
		return b, err
	}
	began = time.Now()
	t, err := trial.Open(ctx, wasm, cfg)
	if err != nil {
		return b, fmt.Errorf("%s: %w", file, err)
	}
	defer t.Close() //nolint:errcheck,contextcheck // it has been measured, and closing is not given up
	b.Loaded, b.Name, b.Version = time.Since(began), t.Plugin().Name(), t.Plugin().Version()
	if err := set.configure(ctx, t); err != nil {
		return b, err
	}
	config, err := benchTask(t, task)
	if err != nil {
		return b, err
	}
	b.Operations, err = t.Bench(ctx, dir, calls, config)
	return b, err
}

// benchTask is the config block of tasks as the driver gets it; nil: none are wanted.
func benchTask(t *trial.Trial, text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	encoded, err := taskConfig("-task", text)
	if err != nil {
		return nil, err
	}
	var value map[string]any
	if err := json.Unmarshal(encoded, &value); err != nil {
		return nil, err
	}
	config, err := t.TaskConfig(value)
	if err != nil {
		return nil, fmt.Errorf("-task: %w", err)
	}
	return config, nil
}
