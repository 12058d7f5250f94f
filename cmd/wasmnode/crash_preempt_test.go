package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// TestCrashAtEveryFailpointOfAPreemption has the agent, or the supervisor, die at each point
// that is passed while jobs preempt others, which come back when these are stopped. Who has
// a port is a matter of locks on files, which nobody gets before its victims' processes have
// ended.
func TestCrashAtEveryFailpointOfAPreemption(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a node dozens of times")
	}
	walkFailpoints(t, scenario{play: (*crashWorld).playPreemption, after: (*crashWorld).finishPreemption})
}

const (
	preempting = 2
	victimsOf  = 2 // of each
	firstPort  = 21000
)

func lowID(i int) string  { return fmt.Sprint("low-", i) }
func highID(i int) string { return fmt.Sprint("high-", i) }

// playPreemption has jobs preempted, and lets them come back.
func (w *crashWorld) playPreemption(t *testing.T) {
	t.Helper()
	if w.runLow(t) && w.awaitPorts(t, 0) && w.runHigh(t) && w.awaitPorts(t, preempting) && w.stopHigh(t) {
		w.awaitPorts(t, 0)
	}
}

// finishPreemption does again what was interrupted, whatever of it was done, and ends it.
func (w *crashWorld) finishPreemption(t *testing.T) {
	t.Helper()
	require.True(t, w.runLow(t) && w.runHigh(t) && w.awaitPorts(t, preempting))
	w.checkPreempted(t)
	require.True(t, w.stopHigh(t) && w.awaitPorts(t, 0))
	w.checkPreempted(t)
	require.NoFileExists(t, w.shared("twice"), "two had a port at a time")
	for i := range preempting * victimsOf {
		_, _, err := w.api(t).Jobs().Deregister(lowID(i), true, nil)
		require.NoError(t, err)
	}
	for i := range preempting {
		_, _, err := w.api(t).Jobs().Deregister(highID(i), true, nil)
		require.NoError(t, err)
	}
	require.True(t, w.awaitLive(t, []string{}))
	w.checkRunning(t, nil)
	w.checkProcesses(t, nil)
}

func (w *crashWorld) runLow(t *testing.T) bool {
	for i := range preempting * victimsOf {
		if _, _, err := w.api(t).Jobs().Register(w.onPorts(lowID(i), 20, firstPort+i), nil); err != nil {
			return w.diedOf(t, err)
		}
	}
	return true
}

func (w *crashWorld) runHigh(t *testing.T) bool {
	_, _, err := w.api(t).Operator().SchedulerSetConfiguration(
		&nomad.SchedulerConfiguration{PreemptionConfig: nomad.PreemptionConfig{ServiceSchedulerEnabled: true}}, nil)
	if err != nil {
		return w.diedOf(t, err)
	}
	for i := range preempting {
		first := firstPort + i*victimsOf
		if _, _, err := w.api(t).Jobs().Register(w.onPorts(highID(i), 90, first, first+1), nil); err != nil {
			return w.diedOf(t, err)
		}
	}
	return true
}

func (w *crashWorld) stopHigh(t *testing.T) bool {
	for i := range preempting {
		if _, _, err := w.api(t).Jobs().Deregister(highID(i), false, nil); err != nil {
			return w.diedOf(t, err)
		}
	}
	return true
}

// diedOf reports that an agent has not answered because it has died.
func (w *crashWorld) diedOf(t *testing.T, err error) bool {
	t.Helper()
	select {
	case <-w.node.exited:
	case <-time.After(testTimeout):
		require.NoError(t, err)
	}
	return false
}

// awaitPorts waits until so many of the important jobs run, and of the others those whose
// ports these do not have; false: the agent has died.
func (w *crashWorld) awaitPorts(t *testing.T, high int) bool {
	t.Helper()
	want := []string{}
	for i := range preempting {
		if i < high {
			want = append(want, highID(i))
			continue
		}
		for k := range victimsOf {
			want = append(want, lowID(i*victimsOf+k))
		}
	}
	return w.awaitLive(t, want)
}

// awaitLive waits until an allocation of each of some jobs runs, and nothing else does, is
// about to, or ends; false: the agent has died.
func (w *crashWorld) awaitLive(t *testing.T, want []string) bool {
	t.Helper()
	slices.Sort(want)
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(tick) {
		if w.node.hasEnded() {
			return false
		}
		allocs, _, err := w.api(t).Allocations().List(nil)
		live := []string{}
		settled := err == nil
		for _, a := range allocs {
			ended := a.ClientStatus != nomad.AllocClientStatusRunning && a.ClientStatus != nomad.AllocClientStatusPending
			if !ended {
				live = append(live, a.JobID)
				settled = settled && a.ClientStatus == nomad.AllocClientStatusRunning && a.DesiredStatus == nomad.AllocDesiredStatusRun
			}
		}
		if slices.Sort(live); settled && slices.Equal(want, live) {
			return true
		}
		require.True(t, time.Now().Before(deadline), "%v instead of %v: %v", live, want, err)
	}
}

// checkPreempted compares who says to have preempted whom, and when they ran.
func (w *crashWorld) checkPreempted(t *testing.T) {
	t.Helper()
	allocs, _, err := w.api(t).Allocations().List(nil)
	require.NoError(t, err)
	byID := map[string]*nomad.AllocationListStub{}
	for _, a := range allocs {
		byID[a.ID] = a
	}
	for _, a := range allocs {
		require.Equal(t, a.PreemptedByAllocation != "", a.DesiredStatus == nomad.AllocDesiredStatusEvict, a.ID)
		if by := byID[a.PreemptedByAllocation]; by != nil {
			require.Contains(t, by.PreemptedAllocations, a.ID)
		}
		require.LessOrEqual(t, len(a.PreemptedAllocations), victimsOf, "more than had to")
		for _, id := range a.PreemptedAllocations {
			v := byID[id]
			if v == nil {
				continue
			}
			require.Equal(t, a.ID, v.PreemptedByAllocation)
			started, ended := a.TaskStates["task"], v.TaskStates["task"]
			if started != nil && ended != nil && !started.StartedAt.IsZero() {
				require.False(t, started.StartedAt.Before(ended.FinishedAt), "%s started before %s had ended", a.ID, id)
			}
		}
	}
}

func (w *crashWorld) shared(name string) string {
	return filepath.Join(filepath.Dir(w.site.data), name)
}

// onPorts is a job that locks a file for each of its ports.
func (w *crashWorld) onPorts(id string, priority int, ports ...int) *nomad.Job {
	var script strings.Builder
	network := &nomad.NetworkResource{}
	for i, port := range ports {
		fmt.Fprintf(&script, "exec %d>%q; flock -n %d || echo %s >>%q\n", 8-i, w.shared(fmt.Sprint("port-", port)), 8-i, id, w.shared("twice"))
		network.ReservedPorts = append(network.ReservedPorts, nomad.Port{Label: fmt.Sprint("p", i), Value: port})
	}
	task := nomad.NewTask("task", "raw_exec").SetConfig("command", "/bin/sh").SetConfig("args", []string{"-c", script.String() + "exec sleep 10000"})
	task.Resources = &nomad.Resources{CPU: ptr(1), MemoryMB: ptr(32)}
	task.LogConfig = &nomad.LogConfig{MaxFiles: ptr(1), MaxFileSizeMB: ptr(1)}
	group := nomad.NewTaskGroup("group", 1).AddTask(task).RequireDisk(&nomad.EphemeralDisk{SizeMB: ptr(10)})
	group.Networks = []*nomad.NetworkResource{network}
	group.RestartPolicy = &nomad.RestartPolicy{
		Attempts: ptr(1000), Interval: ptr(time.Hour), Delay: ptr(time.Millisecond), Mode: ptr(nomad.RestartPolicyModeFail),
	}
	job := &nomad.Job{ID: &id, Name: &id, Type: ptr(nomad.JobTypeService), Priority: &priority, Datacenters: []string{"*"}}
	return job.AddTaskGroup(group)
}
