package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEvaluationsAreListedAndDeleted(t *testing.T) {
	n := newSite(t, "mock").start(t)
	n.out(t, "job", "run", "-detach", writeJob(t, "runs", "service", "mock_driver", "run_for = \"1h\""))
	n.await(t, "runs", "running")
	list := n.out(t, "eval", "list", "-verbose", "-job", "runs", "-status", "complete", "-filter", `TriggeredBy == "job-register"`)
	require.Regexp(t, `^ID +Priority +Triggered By +Job ID +Namespace +Node ID +Status +Placement Failures\n\S{36} +50 +job-register +runs +default +<none> +complete +false\n$`, list)
	require.Equal(t, "No evals found\n", n.out(t, "eval", "list", "-status", "blocked"))
	require.Equal(t, "No evals found\n", n.out(t, "eval", "list", "-filter", `JobID == "nope"`))
	id := strings.Fields(strings.Split(list, "\n")[1])[0]
	require.Contains(t, n.out(t, "status", id), "TriggeredBy")
	require.Contains(t, n.out(t, "status", "runs"), "Allocations")
	require.Contains(t, n.out(t, "status"), "runs")
	refused(t, n, "unable to resolve ID", "status", "zz")
	refused(t, n, "evaluations are not paused", "eval", "delete", id)
	refused(t, n, "eval delete takes an evaluation's ID or -filter", "eval", "delete")
	n.out(t, "operator", "scheduler", "set-config", "-pause-eval-broker=true")
	refused(t, n, "is not safe to delete", "eval", "delete", id)
	n.out(t, "job", "stop", "-detach", "runs")
	require.Equal(t, "Successfully deleted 1 evaluation\n", n.out(t, "eval", "delete", "-yes", "-filter", `TriggeredBy == "job-deregister"`))
}

func TestMonitorFollowsTheLogUntilItIsInterrupted(t *testing.T) {
	n := newSite(t, "mock").start(t)
	out, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer out.Close()
	cmd := n.command("monitor", "-log-level", "debug")
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		n.out(t, "job", "run", "-detach", writeJob(t, "seen", "batch", "mock_driver", "run_for = \"1ms\""))
		n.out(t, "job", "stop", "-purge", "-detach", "seen")
		text, err := os.ReadFile(out.Name())
		return err == nil && strings.Contains(string(text), "[")
	}, testTimeout, 100*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, cmd.Wait())
	refused(t, n, "Unknown log level: nope", "monitor", "-log-level", "nope")
}

// refused runs a command that has to fail, with a text.
func refused(t *testing.T, n *node, text string, args ...string) {
	t.Helper()
	r := n.run(t, args...)
	require.Equal(t, 1, r.code, "%s\n%s", strings.Join(args, " "), r.stdout)
	require.Contains(t, r.stderr, text)
}
