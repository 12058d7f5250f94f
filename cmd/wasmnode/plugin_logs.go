package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/host"
)

type pluginLogsCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginLogsCommand) Synopsis() string { return "Print what a plugin logged" }

// Help implements [subcommand].
func (*pluginLogsCommand) Help() string {
	return `Usage: wasmnode plugin logs [options] NAME

  Prints what a plugin of the node logged last, and what it wrote on its standard output
  and error, with the task that it was about: of all levels, also those that the agent's
  log leaves out. The node keeps 256 KiB of it until it is restarted, also of
  plugins that are not loaded any more.

Options:

  -f       Go on until the command is interrupted: with another version of the plugin, too.
  -n=N     The last N lines; 100.
  -json    An object of JSON a line.` + commonOptions
}

// Run implements [subcommand].
func (c *pluginLogsCommand) Run(args []string) int {
	f := c.flags("plugin logs")
	follow, lines := f.Bool("f", false, ""), f.Int("n", 100, "")
	s := c.stream(f, args, c.Help())
	if s == nil {
		return 1
	}
	s.params = map[string]string{"follow": strconv.FormatBool(*follow), "lines": strconv.Itoa(*lines)}
	version := ""
	return s.run("logs", func(line []byte) error {
		var l host.LogLine
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		if l.Version != version && version != "" {
			c.ui.Output(fmt.Sprintf("==> version %s of the plugin goes on", harmless(l.Version)))
		}
		version = l.Version
		c.ui.Output(harmless(lineText(f, l)))
		return nil
	})
}

// lineTime is how the time of a line is printed: as in the agent's log.
const lineTime = "2006-01-02T15:04:05.000Z0700"

func lineText(f *flags, l host.LogLine) string {
	text := fmt.Sprintf("%s [%s] %s", l.Time.Format(lineTime), strings.ToUpper(l.Level), l.Message)
	about := taskText(f, l.AllocID, l.Task)
	for _, key := range slices.Sorted(maps.Keys(l.Fields)) {
		about += fmt.Sprintf(" %s=%q", key, l.Fields[key])
	}
	if about != "" {
		text += ":" + about
	}
	return text
}

// taskText names a task, after a space; empty: there is none.
func taskText(f *flags, alloc, task string) string {
	if alloc == "" {
		return ""
	}
	return fmt.Sprintf(" alloc=%s task=%s", f.short(alloc), task)
}

// pluginStream is a command that prints what a node tells of a plugin, an object a line.
type pluginStream struct {
	meta
	flags  *flags
	client *nomad.Client
	params map[string]string
	begun  string // is printed once the node listens; empty: nothing is
	// ownJSON: what is shown is JSON where that is asked for.
	ownJSON bool
}

// stream reads the command line of such a command; nil: it has printed what is wrong with it.
func (m meta) stream(f *flags, args []string, usage string) *pluginStream {
	if !m.parse(f, args, 1, 1, usage) {
		return nil
	}
	if m.templated() {
		m.fail(f, errors.New("-t: lines are printed as they come: use -json, which prints an object each"))
		return nil
	}
	client, err := m.client(f)
	if err != nil {
		m.fail(f, err)
		return nil
	}
	return &pluginStream{meta: m, flags: f, client: client}
}

// run prints what comes until it ends or is interrupted, and returns the exit code. It also ends
// when show returns [io.EOF].
func (s *pluginStream) run(what string, show func(line []byte) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	q := (&nomad.QueryOptions{Params: s.params}).WithContext(ctx)
	body, err := s.client.Raw().Response("/v1/agent/plugin/"+url.PathEscape(s.flags.Arg(0))+"/"+what, q)
	if err != nil {
		return s.fail(s.flags, err)
	}
	defer body.Close()
	decoder := json.NewDecoder(body)
	for {
		var line json.RawMessage
		err := decoder.Decode(&line)
		switch {
		case ctx.Err() != nil:
			return 0
		case errors.Is(err, io.EOF) && s.params["follow"] == "false":
			return 0
		case errors.Is(err, io.EOF):
			return s.fail(s.flags, errors.New("the agent has ended the stream"))
		case err != nil:
			return s.fail(s.flags, err)
		}
		if err := s.line(line, show); errors.Is(err, io.EOF) {
			return 0
		} else if err != nil {
			return s.fail(s.flags, err)
		}
	}
}

// line prints one; that nothing has happened is none.
func (s *pluginStream) line(line []byte, show func([]byte) error) error {
	var told struct{ Lost uint64 }
	if err := json.Unmarshal(line, &told); err != nil {
		return err
	}
	switch {
	case string(line) == "{}":
		if s.begun != "" && !*s.flags.json {
			s.ui.Output(s.begun)
		}
		s.begun = ""
		return nil
	case *s.flags.json && (!s.ownJSON || told.Lost > 0):
		s.ui.Output(string(line))
		return nil
	case told.Lost > 0:
		s.ui.Output(fmt.Sprintf("==> %d are lost: they are not read as fast as they come", told.Lost))
		return nil
	}
	return show(line)
}
