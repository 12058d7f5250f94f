package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestASupervisorBecomesTheAgentsProgramAndKeepsItsTasks replaces the program three times
// under tasks that talk, one of which ends meanwhile: the supervisor's process and theirs
// stay, nothing of what they say is lost, and each is told of its end.
func TestASupervisorBecomesTheAgentsProgramAndKeepsItsTasks(t *testing.T) {
	w := newCrashWorld(t)
	w.start(t)
	for range 3 {
		w.register(t, w.newJob(runsOn, true))
	}
	w.check(t)
	supervisor, before := w.site.supervisorPID(t), w.look(t).tasks
	for round := range 3 {
		last := w.newJob(ends, true)
		w.register(t, last)
		w.killAgent(t)
		w.site.newProgram(t, round)
		w.start(t)
		w.check(t)
		require.Equal(t, supervisor, w.site.supervisorPID(t), "the process stays")
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", supervisor))
		require.NoError(t, err)
		require.Equal(t, w.site.binary, exe)
		require.Contains(t, w.node.log.String(), "the supervisor was replaced by this program, with its tasks")
	}
	leaders := 0
	for pid := range before {
		if sid, err := sessionOf(fmt.Sprintf("/proc/%d", pid)); err == nil && sid == pid {
			leaders++
		}
	}
	require.GreaterOrEqual(t, leaders, 3, "the tasks' processes are the same")
	w.end(t)
}

// TestASupervisorOfProgramsStaysAsItIs, since they would end: it is replaced later.
func TestASupervisorOfProgramsStaysAsItIs(t *testing.T) {
	w := newCrashWorld(t)
	w.start(t)
	program, process := w.newJob(runsOn, false), w.newJob(runsOn, true)
	w.register(t, program)
	w.register(t, process)
	w.check(t)
	was := w.site.binary
	w.killAgent(t)
	w.site.newProgram(t, 0)
	w.start(t)
	w.check(t)
	require.Contains(t, w.node.log.String(), "the supervisor keeps running its own program")
	require.Contains(t, w.node.log.String(), "WASI programs run in it, which would end: 1")
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", w.site.supervisorPID(t)))
	require.NoError(t, err)
	require.Equal(t, was, exe)

	w.stop(t, program)
	w.check(t)
	w.killAgent(t)
	w.start(t)
	w.check(t)
	require.Contains(t, w.node.log.String(), "the supervisor was replaced by this program, with its tasks")
	w.end(t)
}

// TestIsolatedTasksStayWhatTheyAreUnderANewerProgram: their limits hold, commands run in
// them, and nothing is left of them in the end.
func TestIsolatedTasksStayWhatTheyAreUnderANewerProgram(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can isolate processes")
	}
	s := newSite(t, "exec")
	s.grant(t, `plugin "exec" {
  grant {
    process {
      commands  = ["/usr/bin/*", "/bin/*"]
      users     = ["nobody"]
      isolation = "full"
    }
  }
}`)
	n := s.start(t)
	for job, script := range map[string]string{"stay": "exec sleep 1000", "hog": "until [ -e /local/go ]; do sleep 0.05; done; exec tail /dev/zero"} {
		n.out(t, "job", "run", "-detach", writeJob(t, job, "batch", "exec", fmt.Sprintf("command = \"sh\"\nargs = [\"-c\", %q]", script)))
	}
	stay, hog := n.await(t, "stay", "running"), n.await(t, "hog", "running")
	require.NotEmpty(t, s.cgroups(t))
	supervisor := s.supervisorPID(t)
	n.signal(t, syscall.SIGKILL)
	s.newProgram(t, 0)
	n = s.start(t)
	require.Contains(t, n.log.String(), "the supervisor was replaced by this program, with its tasks")
	require.Equal(t, supervisor, s.supervisorPID(t))
	require.Equal(t, taskEvents(stay), taskEvents(n.await(t, "stay", "running")), "nothing happened to it")

	require.Equal(t, "nobody\n", n.out(t, "alloc", "exec", stay.ID, "id", "-un"))
	n.out(t, "alloc", "exec", hog.ID, "touch", "/local/go")
	n.await(t, "hog", "failed")
	require.Contains(t, n.out(t, "alloc", "status", hog.ID), `Exit Message: "OOM Killed"`)
	n.out(t, "job", "stop", "stay")
	n.await(t, "stay", "complete")
	require.Eventually(t, func() bool { return len(s.cgroups(t)) == 0 }, testTimeout, tick, "nothing is left of them")
}

// newProgram gives the node another binary, of the same content.
func (s *site) newProgram(t *testing.T, n int) {
	t.Helper()
	content, err := os.ReadFile(s.binary)
	require.NoError(t, err)
	s.binary = filepath.Join(t.TempDir(), fmt.Sprintf("wasmnode-%d", n))
	require.NoError(t, os.WriteFile(s.binary, content, 0o700))
}

func (s *site) supervisorPID(t *testing.T) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(read(t, filepath.Join(s.data, "supervisor", "lock"))))
	require.NoError(t, err)
	return pid
}
