package main

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// TestAWorkloadBesideATasksOwnLivesAsTheTaskDoes has two shells in a task: they outlive the
// agent together, and end together, however the task's own does; their driver stops one first.
func TestAWorkloadBesideATasksOwnLivesAsTheTaskDoes(t *testing.T) {
	s := newSite(t)
	s.grant(t, `plugin "beside" { grant { process { commands = ["/bin/sh"] } } }`)
	s.drop(t, "beside.wasm", guestbuild.Plugin(t, "cmd/wasmnode/testdata/beside"))
	n := s.start(t)
	scripts := `own  = "echo $$ >$NOMAD_ALLOC_DIR/own; exec sleep 1001"
		side = "trap 'echo TERM; exit 0' TERM; trap 'echo HUP' HUP; echo I am beside; echo $$ >$NOMAD_ALLOC_DIR/side; while :; do sleep 0.05; done"`
	for _, job := range []string{"stopped", "ended"} {
		n.out(t, "job", "run", "-detach", writeJob(t, job, "service", "beside", scripts))
	}
	n.out(t, "job", "run", "-detach", writeJob(t, "refused", "batch", "beside", scripts+`
		command = "/bin/true"`))
	refused := n.await(t, "refused", "failed")
	require.Contains(t, taskEvents(refused), "command /bin/true is not granted")
	stopped, ended := n.await(t, "stopped", "running"), n.await(t, "ended", "running")
	before, lost := s.shells(t, stopped.ID), s.shells(t, ended.ID)
	require.Len(t, slices.Concat(before, lost), 4)
	require.NoFileExists(t, filepath.Join(s.data, "alloc", refused.ID, "alloc", "own"))

	n.signal(t, syscall.SIGKILL)
	require.NoError(t, syscall.Kill(lost[0], syscall.SIGTERM))
	s.awaitGone(t, lost[1]) // while there is no agent
	n = s.start(t)
	n.awaitAlloc(t, "ended", func(a *nomad.AllocationListStub) bool {
		return a.TaskStates["task"].Restarts == 1 && a.ClientStatus == "running"
	})
	require.Equal(t, taskEvents(stopped), taskEvents(n.await(t, "stopped", "running")), "nothing happened to it")
	require.Equal(t, before, s.shells(t, stopped.ID))
	require.Contains(t, n.out(t, "alloc", "fs", stopped.ID, "alloc/logs/task.stdout.side.0"), "I am beside\n")
	require.Eventually(t, func() bool {
		now := s.shells(t, ended.ID)
		return now[0] != lost[0] && now[1] != lost[1]
	}, testTimeout, tick, "both are started again")

	for _, job := range []string{"stopped", "ended"} {
		n.out(t, "job", "stop", job)
		n.await(t, job, "complete")
	}
	require.Equal(t, "I am beside\nTERM\n", n.out(t, "alloc", "fs", stopped.ID, "alloc/logs/task.stdout.side.0"), "its driver had it end by itself")
	for _, pid := range before {
		s.awaitGone(t, pid)
	}
	for _, list := range s.cgroups(t) {
		require.Empty(t, readAny(t, list))
	}
}

// shells are the processes of a task's own workload and of the one beside it.
func (s *site) shells(t *testing.T, alloc string) []int {
	t.Helper()
	var pids []int
	for _, name := range []string{"own", "side"} {
		path := filepath.Join(s.data, "alloc", alloc, "alloc", name)
		require.Eventually(t, func() bool { return strings.HasSuffix(readAny(t, path), "\n") }, testTimeout, tick)
		pid, err := strconv.Atoi(strings.TrimSpace(read(t, path)))
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// awaitGone waits until a process has ended.
func (s *site) awaitGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return !alive(pid) }, testTimeout, tick)
}
