package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
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
	refused(t, n, "No nomad log file defined", "monitor", "export", "-on-disk")
	refused(t, n, "service name must include", "monitor", "export", "-service-name", "sshd")
}

func TestANodeIsWatchedForSomebodyElse(t *testing.T) {
	const secret = "a-secret-of-the-environment"
	t.Setenv("DATABASE_PASSWORD", secret)
	s := newSite(t, "mock")
	s.grant(t, "enable_debug = true")
	n := s.start(t)
	n.out(t, "job", "run", "-detach", writeJob(t, "runs", "service", "mock_driver", "run_for = \"1h\""))
	n.await(t, "runs", "running")
	cmd := n.command("operator", "debug", "-duration", "1500ms", "-interval", "1s", "-event-topic", "Allocation:runs,Node", "-event-index", "1", "-max-nodes", "1", "-stale", "-token", secret)
	cmd.Dir = t.TempDir()
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, string(said))
	require.NotContains(t, string(said), "Left out")
	f, err := os.Open(filepath.Join(cmd.Dir, regexp.MustCompile(`wasmnode-debug-\S+\.tar\.gz`).FindString(string(said))))
	require.NoError(t, err)
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	require.NoError(t, err)
	files := map[string]string{}
	for all := tar.NewReader(unpacked); ; {
		header, err := all.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		text, err := io.ReadAll(all)
		require.NoError(t, err)
		require.NotContains(t, string(text), secret, header.Name)
		files[path.Base(path.Dir(header.Name))+"/"+path.Base(header.Name)] = string(text)
	}
	require.Contains(t, files["0001/jobs.json"], `"ID":"runs"`)
	require.Contains(t, files["cluster/nodes.json"], `"Status":"ready"`)
	id := regexp.MustCompile(`"ID":"([^"]+)"`).FindStringSubmatch(files["cluster/nodes.json"])[1]
	for _, name := range []string{"heap_0000.prof", "profile_0000.prof", "goroutine-debug2_0000.txt"} {
		require.NotEmpty(t, files[id+"/"+name], name)
	}
	require.Contains(t, files[id+"/agent-host.json"], `"DATABASE_PASSWORD":"\u003credacted\u003e"`)
	require.Contains(t, files["cluster/eventstream.json"], `"Topic":"Allocation"`)
	require.NotContains(t, files["cluster/eventstream.json"], `"Topic":"Job"`)
	for name, text := range files {
		if name = path.Base(name); name != "index.json" && text != "" { // directories have none
			require.Regexp(t, `/`+regexp.QuoteMeta(name)+`",\s+"Bytes": `+strconv.Itoa(len(text))+`\b`, indexOf(files), name)
		}
	}
	refused(t, n, "has no log file", "operator", "debug", "-log-file-export")
	refused(t, n, `the class ""`, "operator", "debug", "-node-class", "x")
	refused(t, n, "-max-nodes", "operator", "debug", "-max-nodes", "-1")
	refused(t, n, "-log-lookback", "operator", "debug", "-log-lookback", "-1s")
	refused(t, n, "no node has an ID that begins with", "operator", "debug", "-node-id", "zz")
	refused(t, n, "unknown server nope", "operator", "debug", "-server-id", "nope")
	refused(t, n, "-interval is at most -duration", "operator", "debug", "-duration", "1s", "-interval", "2s")
}

// indexOf is what an archive says of itself.
func indexOf(files map[string]string) (text string) {
	for name, content := range files {
		if path.Base(name) == "index.json" {
			text = content
		}
	}
	return text
}

// refused runs a command that has to fail, with a text.
func refused(t *testing.T, n *node, text string, args ...string) {
	t.Helper()
	r := n.run(t, args...)
	require.Equal(t, 1, r.code, "%s\n%s", strings.Join(args, " "), r.stdout)
	require.Contains(t, r.stderr, text)
}
