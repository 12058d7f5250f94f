package compattest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "record what the stock nomad asks for, and how the job files end with Nomad")

// atLeast is how many of the stock commands have to work here.
const atLeast = 115

// TestStockCommands runs the stock nomad's commands against Nomad's own agent, which shows
// that the table is right, and against ours.
func TestStockCommands(t *testing.T) {
	binary := stock(t)
	list := commands(t)
	if os.Getenv("COMPAT_REFERENCE") != "" {
		t.Run("nomad", func(t *testing.T) {
			to := theirs(t, binary, "")
			for _, c := range list {
				if c.elsewhere != "" {
					continue
				}
				if err := to.run(t, binary, to.url, c); err != nil {
					t.Errorf("nomad %s: %v", c.line, err)
				}
			}
		})
	}
	t.Run("wasmnode", func(t *testing.T) {
		to := ours(t)
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
		require.GreaterOrEqual(t, works, atLeast)
		if *update {
			recorder.save(t)
		}
	})
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
	cmd.Env = append(os.Environ(), "NOMAD_ADDR="+url, "NOMAD_CLI_NO_COLOR=1")
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
	for _, w := range c.after {
		if err := to.await(t.Context(), w, began); err != nil {
			return err
		}
	}
	return nil
}
