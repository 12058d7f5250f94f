package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachCommandHasAPage(t *testing.T) {
	texts := map[string]string{
		"":        "Usage: wasmnode <command>\n\nAvailable commands are:\n    job        Jobs: what is to run\n    version    Print the version\n\nShort for others:\n    run    job run\n",
		"job":     "Usage: wasmnode job <subcommand>\n\n  Jobs.\n\nSubcommands:\n    run    Run a job\n",
		"job run": "Usage: wasmnode job run [options] FILE\n\n  .hcl files, 'quoted' \\ and -not- an option.\n",
		"version": "Usage: wasmnode version",
	}
	help := func(words []string) (string, error) {
		text, is := texts[strings.Join(words, " ")]
		if !is {
			return "", errors.New("no such command")
		}
		return text, nil
	}
	all, err := commandsOf(help, nil, "a node")
	require.NoError(t, err)
	var names []string
	for _, c := range all {
		names = append(names, c.name())
	}
	require.Equal(t, []string{"wasmnode", "wasmnode-job", "wasmnode-job-run", "wasmnode-version"}, names)

	page := manual(all[2], trial)
	require.Contains(t, page, "wasmnode\\-job\\-run \\- run a job\n")
	man, err := exec.LookPath("man")
	if err != nil {
		t.Skip("man is not there: apt install man-db")
	}
	cmd := exec.Command(man, "--warnings", "-l", "-")
	cmd.Stdin, cmd.Env = strings.NewReader(page), []string{"MANWIDTH=100", "LC_ALL=C", "PATH=/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "  .hcl files, 'quoted' \\ and -not- an option.\n", "as the help text has it")
	require.NotContains(t, string(out), "warning")

	delete(texts, "job run")
	_, err = commandsOf(help, nil, "a node")
	require.Error(t, err)
}
