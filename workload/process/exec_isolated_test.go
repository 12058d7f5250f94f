package process_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process"
	"github.com/wasmnode/wasmnode/workload/process/isolate"
)

// waitIsolated starts an isolated script that does nothing.
func (w *world) waitIsolated() *workload.Spec {
	w.t.Helper()
	spec := w.isolated("echo ready; while :; do sleep 1000; done")
	spec.Env["GREETING"] = "hello"
	require.NoError(w.t, w.s.Start(w.context(), spec))
	w.ready(spec)
	return spec
}

func TestACommandInAnIsolatedProcessIsAsIsolated(t *testing.T) {
	w := newWorld(t)
	spec := w.waitIsolated()
	same := func(file, lines string) string {
		return "grep '" + lines + "' /proc/1/" + file + " >/local/1; grep '" + lines + "' /proc/self/" + file + " | diff /local/1 -"
	}
	for _, c := range []struct{ what, script, says string }{
		{"the root", "echo $(ls /)", rootOfScripts()},
		{"the user", "id -un", "nobody"},
		{"the environment", "echo $GREETING", "hello"},
		{"the directory", "pwd", "/"},
		{"process 1 is the task", `tr '\0' ' ' </proc/1/cmdline | cut -c1-8`, "/bin/sh"},
		{"processes are the task's", "test $(ls -d /proc/[0-9]* | wc -l) -lt 10", ""},
		{"namespaces", "for n in mnt pid ipc uts net; do test $(readlink /proc/self/ns/$n) = $(readlink /proc/1/ns/$n) || echo $n; done", ""},
		{"privileges", same("status", "^NoNewPrivs\\|^Seccomp\\|^Cap"), ""},
		{"limits", same("cgroup", ":\\(memory\\|pids\\|cpu.*\\):"), ""},
		{"memory images", "ulimit -c", "0"},
	} {
		r := w.exec(spec.ID, nil, c.script)
		require.NoError(t, r.err, c.what)
		require.Equal(t, c.says, strings.TrimSpace(r.stdout), "%s: %s", c.what, r.stderr)
		require.True(t, r.exit.Successful(), "%s: %s", c.what, r.stderr)
	}
	r := w.exec(spec.ID, strings.NewReader("from stdin"), "cat; exit 7")
	require.Equal(t, 7, r.exit.ExitCode)
	require.Equal(t, "from stdin", r.stdout)
}

func TestACommandInAnIsolatedProcessCanHaveATerminal(t *testing.T) {
	w := newWorld(t)
	spec := w.waitIsolated()
	r := w.terminal(spec.ID, workload.Size{Rows: 33, Columns: 101}, "tty && stty size && echo x >/dev/tty && echo y >$(tty) && exit 3")
	require.Equal(t, "/dev/pts/0\r\n33 101\r\nx\r\ny\r\n", r.stdout)
	require.Equal(t, 3, r.exit.ExitCode)
}

func TestACommandThatCannotRunInAnIsolatedProcessIsRefusedWithTheReason(t *testing.T) {
	w := newWorld(t)
	spec := w.waitIsolated()
	for _, c := range []struct {
		command string
		code    abi.Code
		says    string
	}{
		{"", abi.InvalidArgument, "no command"},
		{"no-such-command", abi.NotFound, "the task has no such program in /usr/bin, /bin"},
		{"/no/such", abi.NotFound, "command /no/such"},
		{"/etc/passwd", abi.PermissionDenied, "permission denied"},
	} {
		_, err := w.s.Exec(w.context(), spec.ID, &workload.ExecSpec{Command: c.command})
		require.Equal(t, c.code, abi.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, c.says)
	}
	require.NoError(t, w.exec(spec.ID, nil, "true").err)
}

func TestACommandInAnIsolatedProcessEndsWithIt(t *testing.T) {
	w := newWorld(t)
	spec := w.waitIsolated()
	out := newScreen()
	done := make(chan ran, 1)
	go func() {
		exit, err := w.s.Exec(w.context(), spec.ID, &workload.ExecSpec{Command: "sh", Args: []string{"-c", processTree, w.token}, Stdout: out})
		done <- ran{exit: exit, err: err}
	}()
	out.await(t, "ready")
	require.NoError(t, w.s.Stop(w.context(), spec.ID, "SIGKILL", 0))
	require.Zero(t, w.left())
	r := <-done
	require.NoError(t, r.err)
	require.Equal(t, 137, r.exit.ExitCode)
}

func TestProcessesBeginOnTheNodeAfterACommandInAnIsolatedOne(t *testing.T) {
	w := newWorld(t)
	spec := w.waitIsolated()
	require.NoError(t, w.exec(spec.ID, nil, "true").err)
	own, err := os.Readlink("/proc/self/ns/pid")
	require.NoError(t, err)
	_, stdoutOf := w.run("readlink /proc/self/ns/pid")
	require.Equal(t, own, strings.TrimSpace(stdoutOf))
}

func TestAnIsolatedProcessCannotWriteToTheNodesProgram(t *testing.T) {
	if err := process.FullIsolation(); err != nil {
		t.Skip("this machine cannot isolate processes: ", err)
	}
	path, err := isolate.Executable()
	require.NoError(t, err)
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(path, &fs))
	require.NotZero(t, fs.Flags&unix.ST_RDONLY)
}
