package process_test

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process"
	"github.com/wasmnode/wasmnode/workload/workloadtest"
)

// The fallback is what machines without cgroup v2 run on, so it is tested as much.
func TestRuntimeConformsWithoutCgroup(t *testing.T) {
	command, err := guest()
	require.NoError(t, err)
	workloadtest.Run(t, workloadtest.Fixture{
		New: func(t testing.TB) workload.Runtime {
			s := newRuntime(t)
			require.NoError(t, s.WithoutCgroup())
			return s
		},
		Program: func(t testing.TB, spec *workload.Spec, args ...string) {
			spec.Process = &workload.Process{Command: command, Args: args, Dir: t.TempDir(), Isolation: workload.IsolationNone}
		},
		Unconfined: true,
	})
}

func TestProcessInheritsNothing(t *testing.T) {
	t.Setenv("SECRET", "of the agent")
	leaked, err := syscall.Open("/etc/hostname", syscall.O_RDONLY, 0) // without close-on-exec
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Close(leaked)) }()
	w := newWorld(t)
	result, stdoutOf := w.run(`
		env | grep SECRET
		ls /proc/self/fd | tr '\n' ' '; echo
		grep -E '^(SigBlk|SigIgn|NoNewPrivs)' /proc/self/status | tr -d '\t' | tr '\n' ' '; echo
		[ "$(ps -o sid= -p $$)" -eq $$ ] && echo own session`)
	require.True(t, result.Successful())
	require.Equal(t, "0 1 2 3 \nSigBlk:0000000000000000 SigIgn:0000000000000000 NoNewPrivs:1 \nown session\n", stdoutOf, "3 is the directory that ls reads")
}

func TestProcessRunsInItsDirectory(t *testing.T) {
	w := newWorld(t)
	spec := w.start(`pwd`)
	w.wait(spec)
	require.Equal(t, spec.Process.Dir+"\n", w.stdoutOf(spec))
}

func TestProcessRunsAsItsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of others")
	}
	nobody, err := user.Lookup("nobody")
	require.NoError(t, err)
	w := newWorld(t)
	for name, want := range map[string]string{
		"":            "0 0",
		"nobody":      nobody.Uid + " " + nobody.Gid,
		nobody.Uid:    nobody.Uid + " " + nobody.Gid,
		"nobody:root": nobody.Uid + " 0",
		"nobody:0":    nobody.Uid + " 0",
	} {
		spec := w.script(`echo $(id -u) $(id -g)`)
		spec.Process.User, spec.Process.Dir = name, "/"
		require.NoError(t, w.s.Start(w.context(), spec))
		w.wait(spec)
		require.Equal(t, want+"\n", w.stdoutOf(spec), name)
	}
}

func TestProcessHandlesItsSignals(t *testing.T) {
	w := newWorld(t)
	spec := w.start(`trap 'echo hup' HUP; trap 'exit 7' TERM; echo ready; while :; do sleep 0.02; done`)
	w.ready(spec)
	require.NoError(t, w.s.Signal(w.context(), spec.ID, "SIGHUP"))
	require.Eventually(t, func() bool { return strings.Contains(w.stdoutOf(spec), "hup") }, testTimeout, 5*time.Millisecond)
	require.NoError(t, w.s.Stop(w.context(), spec.ID, "SIGTERM", testTimeout))
	require.Equal(t, &structs.ExitResult{ExitCode: 7}, w.wait(spec))
}

// TestASignalIsForTheProcessItself: what it started hears of it from the process, or at its
// end.
func TestASignalIsForTheProcessItself(t *testing.T) {
	w := newWorld(t)
	spec := w.start(`
		sh -c 'trap "echo child got it" TERM HUP; echo child ready; while :; do sleep 0.02; done' &
		trap 'echo main got it' HUP
		trap 'sleep 0.2; exit 3' TERM
		while :; do sleep 0.02; done`)
	w.ready(spec)
	require.NoError(t, w.s.Signal(w.context(), spec.ID, "SIGHUP"))
	require.Eventually(t, func() bool { return strings.Contains(w.stdoutOf(spec), "main got it") }, testTimeout, 5*time.Millisecond)
	require.NoError(t, w.s.Stop(w.context(), spec.ID, "SIGTERM", testTimeout))
	require.Equal(t, &structs.ExitResult{ExitCode: 3}, w.wait(spec))
	require.Equal(t, "child ready\nmain got it\n", w.stdoutOf(spec))
	require.Zero(t, w.left(), "what it left behind was killed")
}

func TestAProcessOfAUserIsToldWhoItIs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of others")
	}
	nobody, err := user.Lookup("nobody")
	require.NoError(t, err)
	w := newWorld(t)
	for _, c := range []struct {
		user string
		env  map[string]string
		want string
	}{
		{"", nil, "none none none"},
		{"nobody", nil, "nobody nobody " + nobody.HomeDir},
		{nobody.Uid + ":0", nil, "nobody nobody " + nobody.HomeDir},
		{"nobody", map[string]string{"HOME": "/elsewhere"}, "nobody nobody /elsewhere"},
	} {
		spec := w.script(`echo ${USER-none} ${LOGNAME-none} ${HOME-none}`)
		spec.Process.User, spec.Process.Dir = c.user, "/"
		maps.Copy(spec.Env, c.env)
		require.NoError(t, w.s.Start(w.context(), spec))
		w.wait(spec)
		require.Equal(t, c.want+"\n", w.stdoutOf(spec), c.user)
	}
}

func TestSupervisorsRemoveWhatKilledOnesLeft(t *testing.T) {
	// Supervisors of packages that are tested at the same time tidy up too.
	ours := newName()
	letGo, err := process.KeepOthersOut(ours)
	if err != nil {
		t.Skip("run as root where cgroup v2 is mounted: ", err)
	}
	t.Cleanup(func() { require.NoError(t, letGo()) })
	next := func() *process.Runtime { return newRuntimeOf(t, ours+"/"+newName()) }

	w := newWorldOf(t, next())
	require.True(t, w.s.CgroupExists())
	next()
	require.True(t, w.s.CgroupExists(), "it is used")

	spec := w.start(`echo ready; exec sleep 100`)
	w.ready(spec)
	require.NoError(t, w.s.Unlock())
	next()
	require.True(t, w.s.CgroupExists(), "it has something in it")
	require.NoError(t, w.s.Signal(w.context(), spec.ID, "HUP"))
	require.Equal(t, 1, w.wait(spec).Signal)

	next()
	require.False(t, w.s.CgroupExists())
	if process.FullIsolation() != nil {
		return
	}
	w.ask(`true`)
	require.NotEmpty(t, w.s.Limits(), "what bounded it is there for the next")
	next()
	require.Empty(t, w.s.Limits())
}

func TestSupervisorsThatComeAndGoLeaveEachOtherTheirCgroups(t *testing.T) {
	if !newRuntime(t).HasCgroup() {
		t.Skip("run as root where cgroup v2 is mounted")
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				var log strings.Builder
				s, err := process.New(process.Config{Logger: hclog.New(&hclog.LoggerOptions{Output: &log}), Name: newName()})
				if err != nil || !s.HasCgroup() {
					t.Error("it has no cgroup", err, log.String())
					return
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestStatsAreOfTheTree(t *testing.T) {
	for name, cgroup := range map[string]bool{"cgroup": true, "session": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if !cgroup {
				require.NoError(t, w.s.WithoutCgroup())
			}
			command, err := guest()
			require.NoError(t, err)
			spec := w.start(command + ` spin & ` + command + ` sleep & wait`)
			require.Eventually(t, func() bool {
				stats, err := w.s.Stats(w.context(), spec.ID)
				require.NoError(t, err)
				return stats.CPUTotal != nil && *stats.CPUTotal > 50*time.Millisecond && *stats.MemoryBytes > 1<<20
			}, testTimeout, 10*time.Millisecond)
			require.NoError(t, w.s.Signal(w.context(), spec.ID, "KILL"))
			w.wait(spec)
			stats, err := w.s.Stats(w.context(), spec.ID)
			require.NoError(t, err)
			require.Greater(t, *stats.CPUTotal, 50*time.Millisecond, "also of those that nobody waited for")
			require.Zero(t, *stats.MemoryBytes)
		})
	}
}

func TestASpecThatCannotStartIsRefused(t *testing.T) {
	dir := t.TempDir()
	plain, garbage := filepath.Join(dir, "plain"), filepath.Join(dir, "garbage")
	require.NoError(t, os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o644))
	require.NoError(t, os.WriteFile(garbage, []byte("no program"), 0o755))
	w := newWorld(t)
	for name, tc := range map[string]struct {
		change func(*workload.Process)
		code   abi.Code
		says   string
	}{
		"no such command":      {func(p *workload.Process) { p.Command = "/missing" }, abi.NotFound, "command /missing: no such file"},
		"a relative command":   {func(p *workload.Process) { p.Command = "sh" }, abi.InvalidArgument, `command "sh" is not an absolute path`},
		"no command":           {func(p *workload.Process) { p.Command = "" }, abi.InvalidArgument, "not an absolute path"},
		"not executable":       {func(p *workload.Process) { p.Command = plain }, abi.PermissionDenied, "permission denied"},
		"no program":           {func(p *workload.Process) { p.Command = garbage }, abi.InvalidArgument, "exec format error"},
		"a NUL":                {func(p *workload.Process) { p.Args = []string{"\x00"} }, abi.InvalidArgument, "invalid argument"},
		"too many arguments":   {func(p *workload.Process) { p.Args = []string{strings.Repeat("a", 4<<20)} }, abi.InvalidArgument, "argument list too long"},
		"no such directory":    {func(p *workload.Process) { p.Dir = "/missing" }, abi.NotFound, "working directory /missing does not exist"},
		"a file as directory":  {func(p *workload.Process) { p.Dir = plain }, abi.InvalidArgument, "working directory"},
		"a relative directory": {func(p *workload.Process) { p.Dir = "." }, abi.InvalidArgument, "not an absolute path"},
		"no such user":         {func(p *workload.Process) { p.User = "nobody-of-that-name" }, abi.InvalidArgument, "nobody-of-that-name"},
		"no such group":        {func(p *workload.Process) { p.User = "root:none-of-that-name" }, abi.InvalidArgument, "none-of-that-name"},
		"unknown isolation":    {func(p *workload.Process) { p.Isolation = "" }, abi.InvalidArgument, "unknown isolation"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := w.script("exit 0")
			tc.change(spec.Process)
			err := w.s.Start(w.context(), spec)
			require.ErrorContains(t, err, tc.says)
			require.Equal(t, tc.code, abi.CodeOf(err), err.Error())
			require.False(t, abi.IsRecoverable(err))
			_, err = w.s.Inspect(w.context(), spec.ID)
			require.ErrorIs(t, err, abi.ErrTaskNotFound)
		})
	}
	spec := w.script("exit 0")
	spec.Process = nil
	require.Equal(t, abi.InvalidArgument, abi.CodeOf(w.s.Start(w.context(), spec)))
}

// ownerName makes a test process own processes until it is killed: see
// TestProcessesEndWithTheirSupervisor.
const ownerName = "PROCESS_TEST_OWNER"

func TestProcessesEndWithTheirSupervisor(t *testing.T) {
	if name := os.Getenv(ownerName); name != "" {
		ownUntilKilled(t, name)
		return
	}
	name := fmt.Sprintf("test-owner-%d", os.Getpid())
	owner := exec.Command(os.Args[0], "-test.run=^TestProcessesEndWithTheirSupervisor$", "-test.v")
	owner.Env = append(os.Environ(), ownerName+"="+name)
	output, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	lines := bufio.NewScanner(output)
	for lines.Scan() && lines.Text() != "owned" {
	}
	started := 3 // two scripts and a daemon
	if process.FullIsolation() == nil {
		started++ // and an isolated script
	}
	// A shell that is about to execute sleep still looks like one.
	require.Eventually(t, func() bool { return withToken(t, name) == started }, testTimeout, time.Millisecond)

	require.NoError(t, owner.Process.Kill())
	_ = owner.Wait() // it was killed
	require.Eventually(t, func() bool { return withToken(t, name) <= 1 }, testTimeout, time.Millisecond, "all but the daemon end")

	s, err := process.New(process.Config{Logger: hclog.NewNullLogger(), Name: name})
	require.NoError(t, err)
	if s.HasCgroup() {
		require.Zero(t, withToken(t, name), "the daemon ends when there is a runtime of that name again")
		require.Empty(t, s.Groups())
	}
	require.NoError(t, s.Close())
}

func ownUntilKilled(t *testing.T, name string) {
	s, err := process.New(process.Config{Logger: hclog.NewNullLogger(), Name: name})
	require.NoError(t, err)
	w := &world{t: t, s: s, token: name}
	w.ready(w.start(`echo ready; while :; do sleep 1; done`))
	w.ready(w.start(`setsid sh -c 'echo ready; while :; do sleep 1; done' "$0" & while :; do sleep 1; done`))
	if process.FullIsolation() == nil {
		spec := w.isolated(`echo ready; while :; do sleep 1; done`)
		require.NoError(t, s.Start(w.context(), spec))
		w.ready(spec)
	}
	fmt.Println("\nowned")
	require.NoError(t, syscall.Pause())
}
