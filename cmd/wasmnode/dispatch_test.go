package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorded is a command that records how it was run.
type recorded struct {
	name string
	ran  *[]string
	code int
}

func (r recorded) Help() string     { return "Usage: tool " + r.name }
func (r recorded) Synopsis() string { return "Do " + r.name }
func (r recorded) Run(args []string) int {
	*r.ran = append([]string{r.name}, args...)
	return r.code
}

// tool is a command line of a few commands; ran is the one that was run last.
func tool(ran *[]string) (d *dispatcher, out, err *bytes.Buffer) {
	out, err = &bytes.Buffer{}, &bytes.Buffer{}
	d = &dispatcher{name: "tool", version: "1.2.3", commands: map[string]subcommand{}, aliases: map[string]string{"run": "job run", "gone": "job gone"}, ui: ui{out: out, err: err}}
	for name, code := range map[string]int{"job": misused, "job run": 0, "job run fast": 2, "node": 0} {
		d.commands[name] = recorded{name, ran, code}
	}
	return d, out, err
}

func TestTheLongestCommandOfACommandLineIsRun(t *testing.T) {
	for line, want := range map[string]string{
		"job run":              "job run",
		"job run file":         "job run|file",
		"job run fast -x file": "job run fast|-x|file",
		"job run -x fast":      "job run|-x|fast",
		"node job run":         "node|job|run",
		"node -v":              "node|-v",
		"node -- -x":           "node|--|-x",
		"run file":             "job run|file",
	} {
		var ran []string
		d, _, _ := tool(&ran)
		d.run(strings.Fields(line))
		require.Equal(t, want, strings.Join(ran, "|"), line)
	}
}

func TestACommandLineIsAnsweredWithHelpOrAnError(t *testing.T) {
	const list = "Usage: tool [--version] [--help] <command> [<args>]\n\nAvailable commands are:\n    job     Do job\n    node    Do node\n\nShort for others:\n    run               job run\n\n"
	const jobHelp = "Usage: tool job\n\nSubcommands:\n    run    Do job run\n"
	for line, want := range map[string]struct {
		code     int
		out, err string
	}{
		"":           {127, "", list},
		"-x":         {127, "", list},
		"-h":         {0, list, ""},
		"--version":  {0, "1.2.3\n", ""},
		"-v job":     {0, "1.2.3\n", ""},
		"job":        {1, "", jobHelp},
		"job -h":     {0, jobHelp, ""},
		"-help job":  {0, jobHelp, ""},
		"-x job":     {1, "", "Error: options come after the command\n\n" + jobHelp},
		"frob":       {127, "", "Error: unknown command \"frob\": tool -h lists them\n"},
		"frob -h":    {127, "", list},
		"job run -h": {0, "Usage: tool job run\n\nSubcommands:\n    fast    Do job run fast\n", ""},
		"-autocomplete-install -autocomplete-uninstall": {1, "", "Error: completion can be installed or uninstalled, not both\n"},
	} {
		var ran []string
		d, out, err := tool(&ran)
		require.Equal(t, want.code, d.run(strings.Fields(line)), line)
		require.Equal(t, want.out, out.String(), line)
		require.Equal(t, want.err, err.String(), line)
	}
	var ran []string
	d, _, err := tool(&ran)
	require.Equal(t, noSuchCommand, d.run([]string{"job run"}), "one word that looks like two")
	require.Contains(t, err.String(), `unknown command "job run"`)
	require.Nil(t, ran)
	require.Equal(t, 2, d.run([]string{"job", "run", "fast"}), "a command's exit code is passed on")
}

func TestAShellGetsTheCompletionsOfACommandLine(t *testing.T) {
	d, _, _ := tool(new([]string))
	root := d.completion()
	require.Contains(t, root.Flags, "-version")
	require.Len(t, root.Sub, 3)
	require.Contains(t, root.Sub["run"].Sub, "fast", "a short form")
	require.Len(t, root.Sub["job"].Sub, 1)
	require.Contains(t, root.Sub["job"].Sub["run"].Sub, "fast")
	require.Empty(t, root.Sub["node"].Sub)
}

func TestATaskCannotDriveTheTerminalOfWhoLooksAtIt(t *testing.T) {
	var out, complaints bytes.Buffer
	m := meta{ui: ui{out: &out, err: &complaints}}
	m.pairs([][2]string{{"Status", "failure"}, {"Output", "\x1b[2J\x1b]0;x\a\nStatus = success\r\x1fü"}})
	m.table([][]string{{"ID", "Text"}, {"1", "a\x1b[1A\nb"}, {"2", ""}})
	m.ui.Error("Error: \x9b31m\u202e\nof two lines")
	require.Equal(t, `Status = failure
Output = \u001b[2J\u001b]0;x\u0007; Status = success\u000d ü
ID  Text
1   a\u001b[1A; b
2   <none>
`, out.String())
	require.Equal(t, "Error: \uFFFD31m\\u202e\nof two lines\n", complaints.String())
}
