package process_test

import (
	"bytes"
	"context"
	"os"
	"os/user"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// helper is a script that is run as one; $0 is the token.
func (w *world) helper(stdin, script string) (*workload.Helper, *bytes.Buffer, *bytes.Buffer) {
	var stdout, stderr bytes.Buffer
	return &workload.Helper{
		Command: "/bin/sh", Args: []string{"-c", script, w.token}, Env: map[string]string{"PATH": "/usr/bin:/bin", "GREETING": "hello"},
		MemoryMaxBytes: 256 << 20, Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr,
	}, &stdout, &stderr
}

func TestAHelperRunsToItsEnd(t *testing.T) {
	t.Setenv("SECRET", "of the agent")
	w := newWorld(t)
	h, stdout, stderr := w.helper("from stdin", `echo "$GREETING, $(pwd), $(cat)"; env | sort; grep NoNewPrivs /proc/self/status; ls /proc/self/fd | wc -l; echo oops >&2; exit 7`)
	exit, err := w.s.Run(w.context(), h)
	require.NoError(t, err)
	require.Equal(t, &structs.ExitResult{ExitCode: 7}, exit)
	require.Equal(t, "hello, /, from stdin\nGREETING=hello\nPATH=/usr/bin:/bin\nPWD=/\nNoNewPrivs:\t1\n4\n", stdout.String(), "no other variable, and no file but the standard ones")
	require.Equal(t, "oops\n", stderr.String())
	h, _, _ = w.helper("", "kill -9 $$")
	exit, err = w.s.Run(w.context(), h)
	require.NoError(t, err)
	require.Equal(t, &structs.ExitResult{ExitCode: 137, Signal: 9}, exit)
	list, err := w.s.List(w.context())
	require.NoError(t, err)
	require.Empty(t, list, "a helper is no workload")
}

func TestAHelperIsItsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of others")
	}
	nobody, err := user.Lookup("nobody")
	require.NoError(t, err)
	w := newWorld(t)
	h, stdout, _ := w.helper("", `id -u; id -G; echo $USER; grep -E 'Cap(Prm|Eff|Inh|Amb)' /proc/self/status | sort -u -k2`)
	h.User = "nobody"
	_, err = w.s.Run(w.context(), h)
	require.NoError(t, err)
	lines := strings.SplitN(stdout.String(), "\n", 4)
	require.Equal(t, []string{nobody.Uid, nobody.Gid, "nobody"}, lines[:3])
	require.Regexp(t, `^Cap...:\t0+\n$`, lines[3], "it has no capability")
}

// Whatever it started ends with it, also what left its session, and with the context.
func TestNothingOfAHelperIsLeft(t *testing.T) {
	w := newWorld(t)
	if !w.s.HasCgroup() {
		t.Skip("a daemon is found by its cgroup only; run as root where cgroup v2 is mounted")
	}
	daemon := `sh -c 'while :; do sleep 1000; done' $0 & setsid sh -c 'while :; do sleep 1000; done' $0 <&- >&- 2>&- & `
	h, _, _ := w.helper("", daemon+"exit 3")
	exit, err := w.s.Run(w.context(), h)
	require.NoError(t, err)
	require.Equal(t, 3, exit.ExitCode)
	require.Zero(t, w.left())

	h, stdout, _ := w.helper("", daemon+"echo ready; wait")
	ctx, cancel := context.WithCancel(w.context())
	defer cancel()
	h.Stdout = writerFunc(func(b []byte) (int, error) {
		cancel()
		return stdout.Write(b)
	})
	_, err = w.s.Run(ctx, h)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, w.left())
	_, err = w.s.Run(ctx, h)
	require.ErrorIs(t, err, context.Canceled, "nothing is started")
}

func TestAHelpersMemoryIsBounded(t *testing.T) {
	w := newWorld(t)
	h, stdout, _ := w.helper("", `head -c 200000000 /dev/zero | tail -c 199999999 | wc -c`)
	h.MemoryMaxBytes = 16 << 20
	h.Args = append([]string{"-c", "set -o pipefail 2>/dev/null; " + h.Args[1]}, h.Args[2:]...)
	_, err := w.s.Run(w.context(), h)
	require.NoError(t, err)
	require.NotContains(t, stdout.String(), "199999999")
}

func TestAHelperThatCannotStartLeavesNothing(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		change func(*workload.Helper)
		want   abi.Code
	}{
		"no such command":    {func(h *workload.Helper) { h.Command = "/no/such" }, abi.NotFound},
		"a directory":        {func(h *workload.Helper) { h.Command = "/" }, abi.PermissionDenied},
		"not absolute":       {func(h *workload.Helper) { h.Command = "sh" }, abi.InvalidArgument},
		"no such user":       {func(h *workload.Helper) { h.User = "no-such-user" }, abi.InvalidArgument},
		"too little memory":  {func(h *workload.Helper) { h.MemoryMaxBytes = 1 }, abi.InvalidArgument},
		"too long arguments": {func(h *workload.Helper) { h.Args = []string{strings.Repeat("a", 1<<20)} }, abi.FailedPrecondition},
	} {
		h, _, _ := w.helper("", "exit 0")
		c.change(h)
		before := time.Now()
		_, err := w.s.Run(w.context(), h)
		require.Equal(t, c.want, abi.CodeOf(err), "%s: %v", name, err)
		require.Less(t, time.Since(before), testTimeout)
	}
	require.Zero(t, w.left())
}
