package compattest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "record what the stock nomad asks for, and how the job files end with Nomad")

// TestStockCommands runs the stock nomad's commands against Nomad's own agent, which shows
// that the tables are right, and against ours.
func TestStockCommands(t *testing.T) {
	binary := stock(t)
	for _, tab := range tables {
		t.Run(tab.name, func(t *testing.T) {
			list := tab.commands(t)
			if os.Getenv("COMPAT_REFERENCE") != "" {
				t.Run("nomad", func(t *testing.T) { tab.runTheirs(t, binary, list) })
			}
			t.Run("wasmnode", func(t *testing.T) { tab.runOurs(t, binary, list) })
		})
	}
}

func (tab *table) runTheirs(t *testing.T, binary string, list []*command) {
	to := tab.theirs(t, binary)
	for _, c := range list {
		if c.elsewhere != "" {
			continue
		}
		if err := to.run(t, binary, to.url, c); err != nil {
			t.Errorf("nomad %s: %v", c.line, err)
		}
	}
}

func (tab *table) runOurs(t *testing.T, binary string, list []*command) {
	to := tab.ours(t)
	recorder := newRecorder(t, to)
	works := 0
	for _, c := range list {
		recorder.begin(c)
		err := to.run(t, binary, recorder.server.URL, c)
		switch {
		case err == nil && c.fails != "":
			t.Errorf("nomad %s: it works now: take out that it fails, because %s", c.line, c.fails)
		case err == nil:
			works++
		case c.fails != "":
			t.Logf("does not work: nomad %s: %s", c.line, c.fails)
		default:
			t.Errorf("nomad %s: %v", c.line, err)
		}
	}
	t.Logf("%d of %d commands work", works, len(list))
	if *update {
		recorder.save(t, tab.requests())
	}
}

// atLeast is how many of the stock nomad's commands, without their options, have to work here.
const atLeast = 171

// TestTheTablesHaveTheStockCommands asks the stock nomad for its commands: the tables have
// each, but for the agent, and almost all work here.
func TestTheTablesHaveTheStockCommands(t *testing.T) {
	binary := stock(t)
	works, fails := map[string]bool{}, map[string]bool{}
	all := subcommands(t, binary, nil)
	for _, tab := range tables {
		for _, c := range tab.commands(t) {
			name := longest(all, c.line)
			works[name] = works[name] || c.fails == ""
			fails[name] = fails[name] || c.fails != ""
		}
	}
	count := 0
	for _, name := range all {
		switch {
		case works[name]:
			count++
		case !fails[name] && name != "agent":
			t.Errorf("%s is in no table", name)
		default:
			t.Logf("does not work: %s", name)
		}
	}
	t.Logf("%d of %d commands work", count, len(all))
	require.GreaterOrEqual(t, count, atLeast)
}

// longest is the command that a line begins with.
func longest(all []string, line string) (found string) {
	for _, name := range all {
		if strings.HasPrefix(line+" ", name+" ") && len(name) > len(found) {
			found = name
		}
	}
	return found
}

var helped = regexp.MustCompile(`(?m)^    ([a-z][a-z-]*)  `)

// subcommands are the commands that a command's help names and, of those that have some,
// theirs.
func subcommands(t *testing.T, binary string, of []string) (all []string) {
	t.Helper()
	out, _ := exec.Command(binary, append(slices.Clone(of), "-help")...).CombinedOutput() // Nomad's own help ends with 127
	_, text, has := strings.Cut(string(out), "\nSubcommands:\n")
	if !has && len(of) > 0 {
		return []string{strings.Join(of, " ")}
	}
	if len(of) == 0 {
		text = string(out)
	}
	for _, m := range helped.FindAllStringSubmatch(text, -1) {
		all = append(all, subcommands(t, binary, append(slices.Clone(of), m[1]))...)
	}
	return all
}

// run runs a command of the stock nomad, and returns what is not as it has to be.
func (to *target) run(t *testing.T, binary, url string, c *command) error {
	t.Helper()
	dir, err := filepath.Abs("testdata/cli")
	require.NoError(t, err)
	line := strings.NewReplacer("{dir}", dir, "{tmp}", to.scratch).Replace(to.fill(c.line))
	limit := c.runs
	if limit == 0 {
		limit = patience
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", binary+" "+line)
	cmd.Dir = to.scratch
	cmd.Env = append(os.Environ(), "NOMAD_ADDR="+url, "NOMAD_CLI_NO_COLOR=1", "NOMAD_TOKEN="+to.token)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	began := time.Now()
	out, err := cmd.CombinedOutput()
	text := string(out)
	switch exit := (*exec.ExitError)(nil); {
	case c.runs > 0:
	case ctx.Err() != nil:
		return fmt.Errorf("it does not end: %s", text)
	case err != nil && !errors.As(err, &exit):
		return err
	case cmd.ProcessState.ExitCode() != c.exit:
		return fmt.Errorf("exit code %d, not %d: %s", cmd.ProcessState.ExitCode(), c.exit, text)
	}
	if strings.Contains(text, "panic:") || strings.Contains(text, "PANIC") {
		return fmt.Errorf("it panics: %s", text)
	}
	for _, re := range c.out {
		if !re.MatchString(text) {
			return fmt.Errorf("no %q in its output: %s", re, text)
		}
	}
	to.afterwards(c)
	for _, w := range c.after {
		if err := to.await(t.Context(), w, began); err != nil {
			return err
		}
	}
	return nil
}
