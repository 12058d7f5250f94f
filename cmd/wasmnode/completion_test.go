package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheOptionsOfAHelpTextAreCompleted(t *testing.T) {
	const help = `Usage: tool do [options] JOB

  Does it, or -not.

Options:

  -detach              Do not follow -anything.
  -check-index=INDEX   Only then.
  -namespace=NAME, -region=NAME
                       Where -from.
  -yes, -no            Answer.
  -var-file=FILE       Variables.`
	flags := optionsOf(help)
	require.ElementsMatch(t, []string{"-help", "-detach", "-check-index", "-namespace", "-region", "-yes", "-no", "-var-file"}, slices.Collect(maps.Keys(flags)))
	require.Nil(t, flags["-detach"], "what follows it is completed as if it were not there")
	require.NotNil(t, flags["-check-index"], "what follows it is its value")
	require.NotNil(t, argumentOf(help))
	require.NotNil(t, argumentOf("Usage: tool do [options] [JOB]\n"))
	require.NotNil(t, argumentOf("Usage: tool do [options] FILE\n"))
	require.Nil(t, argumentOf("Usage: tool do [options]\n\n  JOB"))
	require.Nil(t, argumentOf("Usage: tool do [options] WHATEVER\n"))
}

// TestEveryOptionIsInItsCommandsHelp compares what each command takes with what its help
// tells of, which is also what shells complete.
func TestEveryOptionIsInItsCommandsHelp(t *testing.T) {
	m := meta{ui: ui{out: io.Discard, err: io.Discard}, running: new(running)}
	unlike := []string{"agent", "config validate", "fmt", "job init", "operator client-state", "operator end-tasks", "operator snapshot inspect", "plugin annotate", "plugin bench", "plugin bundle", "plugin call", "plugin compile", "plugin config", "plugin conform", "plugin dev", "plugin diff", "plugin inspect", "plugin install", "plugin keygen", "plugin lock", "plugin new", "plugin pull", "plugin push", "plugin record", "plugin replay", "plugin sign", "plugin test", "plugin verify", "supervisor", "var init", "version", "volume init"} // have flags of their own, or none
	for name, c := range commands(m) {
		_, group := c.(*groupCommand)
		if _, refused := c.(*refusedCommand); group || refused || slices.Contains(unlike, name) {
			continue
		}
		m.running.flags = nil
		c.Run([]string{"-h"})
		require.NotNil(t, m.running.flags, name)
		var taken []string
		m.running.flags.VisitAll(func(f *flag.Flag) { taken = append(taken, "-"+f.Name) })
		told := optionsOf(c.Help())
		delete(told, "-help")
		assert.Equal(t, taken, slices.Sorted(maps.Keys(told)), name)
	}
}

func TestChangedFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "bash"), filepath.Join(dir, "zsh"), filepath.Join(dir, "fish")}
	write(t, files[0], "as it was")
	write(t, files[1], "before")
	failed := errors.New("no fish")
	changed, err := changing(files, func() error {
		write(t, files[1], "after")
		return failed
	})
	require.Equal(t, files[1:2], changed)
	require.Equal(t, failed, err)
}

func TestWhoWantsColours(t *testing.T) {
	for _, c := range []struct {
		args     string
		env      string
		terminal bool
		want     bool
	}{
		{"job status", "", true, true},
		{"job status", "", false, false},
		{"job status", "NO_COLOR", true, false},
		{"job status", "NOMAD_CLI_NO_COLOR", true, false},
		{"job status", "NOMAD_CLI_FORCE_COLOR", false, true},
		{"job status -no-color", "NOMAD_CLI_FORCE_COLOR", true, false},
		{"job status --force-color", "NO_COLOR", false, true},
		{"alloc exec x -- ls -no-color", "", true, true},
	} {
		getenv := func(name string) string {
			if name == c.env {
				return "1"
			}
			return ""
		}
		assert.Equal(t, c.want, wantsColour(strings.Fields(c.args), getenv, c.terminal), c)
	}
	var out, complaints bytes.Buffer
	u := ui{out: &out, err: &complaints, outColour: true, errColour: true}
	u.Output("\nDrivers\x1b[5m")
	u.Output("one\ntwo")
	u.Error("Error: no")
	require.Equal(t, "\n\x1b[1mDrivers\\u001b[5m\x1b[0m\none\ntwo\n", out.String())
	require.Equal(t, "\x1b[31mError: no\x1b[0m\n", complaints.String())
}

func TestATemplatePrintsWhatItNames(t *testing.T) {
	var out, complaints bytes.Buffer
	m := meta{ui: ui{out: &out, err: &complaints}, running: new(running)}
	f := m.flags("show")
	require.True(t, m.parse(f, []string{"-t", "{{.Name}}: {{len .IDs}}"}, 0, 0, ""))
	require.True(t, *f.json)
	value := struct {
		Name string
		IDs  []string
	}{"web", []string{"a", "b"}}
	require.Zero(t, m.printJSON(value))
	require.Equal(t, "web: 2\n", out.String())
	m.running.template = "{{.Nothing}}"
	require.Equal(t, 1, m.printJSON(value))
	require.False(t, m.parse(m.flags("show"), []string{"-json", "-t", "x"}, 0, 0, "Usage: show"))
	require.Contains(t, complaints.String(), "-json and -t are two forms")
}
