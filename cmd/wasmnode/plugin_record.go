package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/trial"
)

type pluginRecordCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginRecordCommand) Synopsis() string {
	return "Record what a plugin asks the node for, without a node or on one that runs"
}

// Help implements [subcommand].
func (*pluginRecordCommand) Help() string {
	return `Usage: wasmnode plugin record [options] FILE
       wasmnode plugin record -live [options] NAME

  Calls the operations of a plugin's file one after another, and writes each call into a
  recording: the request, each use of a capability with what was answered, and the
  answer. Of a driver that is its fingerprint and the life of a task; of a device plugin
  its fingerprint, its figures and a reservation. No node is needed. What the plugin may
  do is what is granted here; its capabilities are real. plugin replay repeats the calls.

  A recording is a text of JSON lines, whose first says which secrets are masked in it:
  the values of environment variables, headers with credentials, keys, and what is named
  like a secret in a configuration, or is one by the plugin's schema (writeOnly). Other
  secrets are not known as such. What a plugin does by WASI with files is recorded, with
  what is in them, and it is told which files that were: masked is what a file has whose
  name is like a secret's or that is in the task's secrets directory, and private keys. Its
  random numbers follow from the recording. plugin call -record=FILE adds single calls.

  With -live the calls of a plugin of a node that runs are recorded, from now on, each once
  it has ended, until the command is interrupted or a bound is reached; what was written
  by then is a recording. Each of these calls has an instance of its own and a clock that
  stands still while it computes. It needs a token that may do everything; of a node
  without ACLs, enable_debug in its configuration. Besides the above the recording has
  what people type into commands in tasks, and from it follow the keys that the plugin
  made of random numbers meanwhile.

  The exit code is 0 when the recording is written, whatever the plugin answered.

Options:

  -o=FILE          The recording. There must be none.
  -config=PATH     A file or directory of an agent's configuration: the plugin's block
                   in it has what it is granted and its own configuration.
  -grant=TEXT      What the plugin is granted, as in the grant block of a configuration:
                   'kv { enabled = true }'. It may be given several times.
  -task=TEXT       What is in the config block of the task that is started, as in a job
                   file: 'command = "/bin/sleep"'. Without it, nothing.
  -timeout=10s     How long each call may take.
  -json            Print JSON.

With -live:

  -live            The plugin of that name on a node.
  -o=FILE          As above.
  -for=10m         How long it goes on, at most an hour.
  -max-bytes=N     How large it gets, at most 256 MiB; 64 MiB.
` + commonOptions
}

// recordedCall is a call that was recorded, for programs.
type recordedCall struct {
	Operation    string
	Capabilities int
	Files        []string `json:",omitempty"` // that it asked for by WASI
	Error        *calledError
}

// Run implements [subcommand].
func (c *pluginRecordCommand) Run(args []string) int {
	f := c.flags("plugin record")
	set := trialFlags(f.FlagSet)
	to := f.String("o", "", "")
	task := f.String("task", "", "")
	timeout := f.Duration("timeout", 10*time.Second, "")
	live := f.Bool("live", false, "")
	longest := f.Duration("for", trial.DefaultLiveTime, "")
	bytes := f.Int("max-bytes", trial.DefaultLiveBytes, "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	if *to == "" {
		return c.fail(f, errors.New("-o says where the recording is written"))
	}
	if *live {
		if c.templated() {
			return c.fail(f, errors.New("-t: lines are printed as they come: use -json, which prints an object each"))
		}
		if other := given(f.FlagSet, "config", "grant", "task", "timeout"); other != "" {
			return c.fail(f, fmt.Errorf("-%s is for a plugin's file: with -live the node decides", other))
		}
		return c.recordLive(f, *to, *longest, *bytes)
	}
	if other := given(f.FlagSet, "for", "max-bytes", "address", "token"); other != "" {
		return c.fail(f, fmt.Errorf("-%s is for a plugin of a node: add -live", other))
	}
	calls, err := recordPlugin(set, f.Arg(0), *to, *task, *timeout)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(calls)
	}
	rows := [][]string{{"Operation", "Capabilities", "Answer"}}
	for _, r := range calls {
		answer := "ok"
		if r.Error != nil {
			answer = r.Error.line()
		}
		rows = append(rows, []string{r.Operation, fmt.Sprint(r.Capabilities), answer})
	}
	c.table(rows)
	c.ui.Output("\n" + *to + ": " + counted(len(calls), "call"))
	var files []string
	for _, r := range calls {
		files = append(files, r.Files...)
	}
	c.recordedFiles(files)
	return 0
}

// mostFiles is how many files are named.
const mostFiles = 8

// recordedFiles says which files the recorded calls have asked for, if any.
func (c *pluginRecordCommand) recordedFiles(files []string) {
	if text := filesText(files); text != "" {
		c.ui.Output("In it is what the calls did by WASI with " + text + ", and what they read there. Secrets in files are masked as the first line says: look before you pass it on.")
	}
}

// filesText names files; empty: there are none.
func filesText(files []string) string {
	files = slices.Compact(slices.Sorted(slices.Values(files)))
	more := ""
	if n := len(files) - mostFiles; n > 0 {
		files, more = files[:mostFiles], fmt.Sprintf(" and %d more", n)
	}
	return harmless(strings.Join(files, ", ")) + more
}

// given is the first of some options that is on the command line; empty: none is.
func given(f *flag.FlagSet, names ...string) (first string) {
	f.Visit(func(o *flag.Flag) {
		if first == "" && slices.Contains(names, o.Name) {
			first = o.Name
		}
	})
	return first
}

// counted is a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func recordPlugin(set *trialSet, file, to, task string, timeout time.Duration) ([]recordedCall, error) {
	ctx := context.Background()
	given, err := taskValue("-task", task)
	if err != nil {
		return nil, err
	}
	t, err := set.open(ctx, file, trial.Config{Limits: host.Limits{CallTimeout: timeout}, Repeatable: true}, true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = t.Close() }() // it has been recorded
	if err := set.configure(ctx, t); err != nil {
		return nil, err
	}
	config, err := t.TaskConfig(given)
	if err != nil {
		return nil, fmt.Errorf("-task: %w", err)
	}
	dir, err := os.MkdirTemp("", "wasmnode-record-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	calls := []recordedCall{}
	recorder, err := t.NewRecorder(out, nil)
	if err == nil {
		err = t.RecordLife(ctx, recorder, dir, config, timeout, func(op string, r *trial.Result) { calls = append(calls, recordedCallOf(op, r)) })
	}
	return calls, errors.Join(err, out.Close())
}

func recordedCallOf(op string, r *trial.Result) recordedCall {
	out := recordedCall{Operation: op, Files: r.Files}
	for _, u := range r.Uses {
		if u.Module != abi.ModuleLog {
			out.Capabilities++
		}
	}
	if r.Err != nil {
		out.Error = errorOf(r.Err)
	}
	return out
}

// readRecording reads a recording's file.
func readRecording(file string) (*trial.Recording, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := trial.ReadRecording(f)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", file, err)
	}
	return r, nil
}

// openRecording opens a recording that calls are added to. Whoever called it closes the file.
func openRecording(t *trial.Trial, file string) (_ *trial.Recorder, _ io.Closer, err error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	var before *trial.Recording
	if info.Size() > 0 {
		if before, err = trial.ReadRecording(f); err != nil {
			return nil, nil, fmt.Errorf("%s:%w", file, err)
		}
	}
	r, err := t.NewRecorder(f, before)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, f, nil
}
