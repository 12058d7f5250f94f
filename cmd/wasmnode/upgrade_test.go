package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	supervisor, before := w.supervisorPID(t), w.look(t).tasks
	for round := range 3 {
		last := w.newJob(ends, true)
		w.register(t, last)
		w.killAgent(t)
		w.newProgram(t, round)
		w.start(t)
		w.check(t)
		require.Equal(t, supervisor, w.supervisorPID(t), "the process stays")
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
	w.newProgram(t, 0)
	w.start(t)
	w.check(t)
	require.Contains(t, w.node.log.String(), "the supervisor goes on as the program that it is")
	require.Contains(t, w.node.log.String(), "WASI programs run in it, which would end: 1")
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", w.supervisorPID(t)))
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

// newProgram gives the node another binary, of the same content.
func (w *crashWorld) newProgram(t *testing.T, n int) {
	t.Helper()
	content, err := os.ReadFile(w.site.binary)
	require.NoError(t, err)
	w.site.binary = filepath.Join(t.TempDir(), fmt.Sprintf("wasmnode-%d", n))
	require.NoError(t, os.WriteFile(w.site.binary, content, 0o700))
}

func (w *crashWorld) supervisorPID(t *testing.T) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(read(t, filepath.Join(w.supervisorDir(), "lock"))))
	require.NoError(t, err)
	return pid
}
