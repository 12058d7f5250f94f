package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/workload"
)

// check waits until the node is as it should be, and compares what is seen from
// outside: the processes, the cgroups, and the files that the tasks wrote.
func (w *crashWorld) check(t *testing.T) {
	t.Helper()
	w.settle(t)
	running := map[string]bool{} // by the allocation; true: a process
	for _, j := range w.jobs {
		alloc := w.awaitAlloc(t, j)
		w.checkAlloc(t, j, alloc)
		w.checkOutput(t, j, alloc)
		if j.expected() == nomad.AllocClientStatusRunning {
			running[j.alloc] = j.process
		}
	}
	w.checkRunning(t, running)
	w.checkProcesses(t, running)
}

// awaitAlloc waits until a job's one allocation has come to what is expected.
func (w *crashWorld) awaitAlloc(t *testing.T, j *crashJob) *nomad.AllocationListStub {
	t.Helper()
	var allocs []*nomad.AllocationListStub
	eventually(t, func() error {
		var err error
		if allocs, _, err = w.api(t).Jobs().Allocations(j.id, true, nil); err != nil {
			return err
		}
		if j.stopped && len(allocs) == 0 { // stopped before it was placed
			return nil
		}
		if len(allocs) != 1 {
			return fmt.Errorf("%s has %d allocations", j.id, len(allocs))
		}
		if s := allocs[0]; s.ClientStatus != j.expected() || s.TaskStates["task"] == nil && !j.stopped {
			return fmt.Errorf("%s is %s instead of %s after %d kills of the supervisor\n%s", j.id, s.ClientStatus, j.expected(), w.killsOf(j), taskEvents(s))
		}
		return nil
	})
	if len(allocs) == 0 {
		return nil
	}
	if j.alloc == "" {
		j.alloc = allocs[0].ID
	}
	require.Equal(t, j.alloc, allocs[0].ID, "%s was placed twice", j.id)
	return allocs[0]
}

// kills is how often the supervisor died in a job's life.
func (w *crashWorld) killsOf(j *crashJob) int { return w.kills - j.killsBefore }

// lostLine is an event that says that a supervisor took a task with it.
var lostLine = regexp.MustCompile(`(?m)^.*(does not exist|supervisor of workloads).*$`)

// checkAlloc compares what the agent tells: restarts, starts and exit codes.
func (w *crashWorld) checkAlloc(t *testing.T, j *crashJob, alloc *nomad.AllocationListStub) {
	t.Helper()
	if alloc == nil || alloc.TaskStates["task"] == nil {
		return
	}
	task, kills := alloc.TaskStates["task"], w.killsOf(j)
	most := kills
	if j.kind.code != 0 {
		most = j.kind.attempts
		require.Equal(t, uint64(most), task.Restarts, "%s\n%s", j.id, taskEvents(alloc))
	}
	require.LessOrEqual(t, task.Restarts, uint64(most), "%s\n%s", j.id, taskEvents(alloc))
	starts := 1 + kills // what is lost with the supervisor costs no attempt
	if j.kind.code != 0 {
		starts += j.kind.attempts
	}
	require.LessOrEqual(t, strings.Count(taskEvents(alloc), "Started:"), starts, "%s\n%s", j.id, taskEvents(alloc))
	lost := lostLine.FindAllString(taskEvents(alloc), -1)
	require.LessOrEqual(t, len(lost), kills, "%s was lost more often than the supervisor died\n%s", j.id, taskEvents(alloc))
	if kills == 0 && j.expected() == j.kind.status && j.kind.status != nomad.AllocClientStatusRunning {
		require.Contains(t, taskEvents(alloc), fmt.Sprintf("Exit Code: %d", j.kind.code), j.id)
	}
}

// halfLine is the end of an invocation whose output was cut off.
var halfLine = regexp.MustCompile(`^(b|be|beg|begi|l|li|lin|line|line \d*)?begin$`)

// checkOutput wants each start to begin with the first line and to go on without a gap
// or a repetition, as often as the task says that it was started.
func (w *crashWorld) checkOutput(t *testing.T, j *crashJob, alloc *nomad.AllocationListStub) {
	t.Helper()
	shared := filepath.Join(w.site.data, "alloc", j.alloc, "alloc")
	if j.alloc == "" {
		return
	}
	require.NoFileExists(t, filepath.Join(shared, "data", "twice"), "%s ran twice at a time", j.id)
	kills := w.killsOf(j)
	if j.expected() == nomad.AllocClientStatusRunning {
		eventually(t, func() error { // it is said to run a moment before it says so itself
			if outputOf(t, shared) == "" {
				return fmt.Errorf("%s says nothing", j.id)
			}
			return nil
		})
	}
	lines := strings.Split(outputOf(t, shared), "\n")
	// Read after the output: a task that is started meanwhile notes that before it says so.
	starts := strings.Count(readAny(t, filepath.Join(shared, "data", "starts")), "start")
	begins, next := 0, 0
	for _, line := range lines[:len(lines)-1] { // the last one is empty, or half written
		if halfLine.MatchString(line) && (line == "begin" || kills > 0) {
			begins, next = begins+1, 1
			continue
		}
		require.NotZero(t, next, "%s begins with %q", j.id, line)
		require.Equal(t, fmt.Sprintf("line %d", next), line, "%s", j.id)
		next++
	}
	require.LessOrEqual(t, begins, starts, "%s", j.id)
	most := 1 + kills // a start that dies unseen with the supervisor costs no attempt
	if j.kind.code != 0 {
		most += j.kind.attempts
	}
	require.LessOrEqual(t, starts, most, "%s was started too often in %d kills of the supervisor", j.id, kills)
	if kills > 0 && j.kind.code != 0 || j.stopped {
		return // lost or stopped before it began
	}
	if kills == 0 {
		require.Equal(t, most, starts, "%s\n%s\n%s", j.id, taskEvents(alloc), strings.Join(lines, "\n"))
	}
	if j.expected() != nomad.AllocClientStatusRunning {
		require.Equal(t, j.kind.lines+1, next, "the last lines of %s", j.id)
	}
}

// outputOf is all that a task wrote.
func outputOf(t *testing.T, shared string) string {
	t.Helper()
	return readAny(t, filepath.Join(shared, "logs", "task.stdout.0"))
}

// readAny reads a file that need not be there.
func readAny(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return string(b)
}

// checkRunning asks the supervisor: each allocation's task runs once, and no other.
func (w *crashWorld) checkRunning(t *testing.T, running map[string]bool) {
	t.Helper()
	eventually(t, func() error {
		if len(running) == 0 && !w.supervisor.Answers(t.Context()) {
			return nil
		}
		found := map[string]bool{}
		list, err := w.supervisor.List(t.Context())
		if err != nil {
			return err
		}
		for _, s := range list {
			id, _, _ := strings.Cut(s.ID, "/")
			if s.State != workload.Running {
				continue
			}
			if _, expected := running[id]; !expected {
				return fmt.Errorf("allocation %s runs", id)
			}
			if s.Beside != "" {
				continue
			}
			require.False(t, found[id], "allocation %s runs more than once", id)
			found[id] = true
		}
		if len(found) != len(running) {
			return fmt.Errorf("%d of %d run", len(found), len(running))
		}
		return nil
	})
}

// checkProcesses looks at the machine: each process of a task belongs to an allocation
// that runs, each of those has two leaders, all is in our cgroup, and there is at most
// one supervisor.
func (w *crashWorld) checkProcesses(t *testing.T, running map[string]bool) {
	t.Helper()
	eventually(t, func() error {
		seen := w.look(t)
		if seen.supervisors > 1 {
			return fmt.Errorf("there are %d supervisors", seen.supervisors)
		}
		for id, leaders := range seen.leaders {
			if !running[id] {
				return fmt.Errorf("allocation %s has %d processes and should have none", id, leaders)
			}
		}
		for id, process := range running {
			if process && seen.leaders[id] != 2 {
				return fmt.Errorf("allocation %s has %d processes", id, seen.leaders[id])
			}
		}
		for pid := range seen.grouped {
			if _, ours := seen.tasks[pid]; !ours && alive(pid) {
				return fmt.Errorf("process %d is in our cgroup and of no task", pid)
			}
		}
		return nil
	})
}

// observation is what a look at /proc and the cgroups shows of one node.
type observation struct {
	supervisors int
	leaders     map[string]int // by the allocation
	tasks       map[int]bool
	grouped     map[int]bool
}

// cgroups are the lists of processes of the tasks' cgroups, and of those of their processes.
func (s *site) cgroups(t *testing.T) []string {
	t.Helper()
	digest := sha256.Sum256([]byte(filepath.Join(s.data, "supervisor")))
	tops := "/sys/fs/cgroup/*/wasmnode/" + hex.EncodeToString(digest[:8])
	lists, err := filepath.Glob(tops + "/*/cgroup.procs")
	require.NoError(t, err)
	below, err := filepath.Glob(tops + "/*/*/cgroup.procs")
	require.NoError(t, err)
	return append(lists, below...)
}

func (w *crashWorld) look(t *testing.T) *observation {
	t.Helper()
	s := &observation{leaders: map[string]int{}, tasks: map[int]bool{}, grouped: map[int]bool{}}
	for _, g := range w.site.cgroups(t) {
		procs, _ := os.ReadFile(g) // it may have gone
		for _, pid := range strings.Fields(string(procs)) {
			n, _ := strconv.Atoi(pid)
			s.grouped[n] = true
		}
	}
	prefix := []byte("NOMAD_ALLOC_DIR=" + filepath.Join(w.site.data, "alloc") + "/")
	all, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, dir := range all {
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if command, _ := os.ReadFile(filepath.Join(dir, "cmdline")); bytes.Contains(command, []byte("supervisor\x00-data-dir="+w.site.data+"\x00")) {
			s.supervisors++
			continue
		}
		_, rest, ours := bytes.Cut(environ, prefix)
		if !ours {
			continue
		}
		id, _, _ := strings.Cut(string(rest), "/")
		s.tasks[pid] = true
		if sid, err := sessionOf(dir); err == nil && sid == pid {
			s.leaders[id]++
		} else if s.leaders[id] == 0 {
			s.leaders[id] = 0
		}
	}
	return s
}

// sessionOf is the session of the process whose directory in /proc that is.
func sessionOf(dir string) (int, error) {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return strconv.Atoi(fields[3])
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}
