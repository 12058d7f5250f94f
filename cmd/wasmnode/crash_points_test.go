package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// TestCrashAtEveryFailpoint has the agent, or the supervisor, die at each point around a
// write, a rename, a fork and a call between the two: at one of the times that it is
// passed in a scenario, or with WASMNODE_CRASH at each of them.
func TestCrashAtEveryFailpoint(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a node a hundred times")
	}
	walkFailpoints(t, scenario{play: (*crashWorld).play, after: (*crashWorld).checkAndStop})
}

// TestAStartThatTheSupervisorDoesNotSurviveIsNotCharged has it die in the start of a task that may not restart, which
// are two processes.
func TestAStartThatTheSupervisorDoesNotSurviveIsNotCharged(t *testing.T) {
	if testing.Short() {
		t.Skip("builds another binary")
	}
	w := newCrashWorld(t)
	never := runsOn
	never.attempts = 0
	for _, point := range []string{"asked.start", "fork", "forked", "answering.start", "asked.start-beside", "answering.start-beside"} {
		require.True(t, w.killAt(t, "supervisor/"+point+":1", scenario{play: func(w *crashWorld, t *testing.T) {
			j := w.newJob(never, true)
			w.register(t, j)
			w.node.await(t, j.id, nomad.AllocClientStatusRunning)
		}, after: (*crashWorld).checkAndStop}), point)
	}
	w.start(t)
	w.end(t)
}

// scenario is what an agent dies in.
type scenario struct {
	// play gives up when the agent has died.
	play func(*crashWorld, *testing.T)
	// after checks what is left, with another agent, and ends it.
	after func(*crashWorld, *testing.T)
	// only are what the names of the points begin with where it dies; nil: at all that it passes.
	only []string
}

// checkAndStop is after play.
func (w *crashWorld) checkAndStop(t *testing.T) {
	t.Helper()
	w.check(t)
	for _, j := range w.jobs {
		w.stop(t, j)
	}
	w.check(t)
	w.forget(t)
}

// walkFailpoints has the agent, or the supervisor, die at each point that a scenario passes.
func walkFailpoints(t *testing.T, s scenario) {
	t.Helper()
	points := failpoints(t, s)
	rng := rand.New(rand.NewPCG(number(t, crashSeedEnv, 1), 0))
	var kills []string // POINT:TIMES
	for _, name := range slices.Sorted(maps.Keys(points)) {
		if os.Getenv(crashEnv) == "" {
			often := (points[name] + 1) / 2 // each run passes it: how often more, the scheduling says
			kills = append(kills, fmt.Sprintf("%s:%d", name, 1+rng.IntN(often)))
			continue
		}
		for n := range points[name] {
			kills = append(kills, fmt.Sprintf("%s:%d", name, n+1))
		}
	}
	var mu sync.Mutex
	died := 0
	t.Run("walk", func(t *testing.T) {
		for i := range crashWorlds {
			t.Run(fmt.Sprintf("world %d", i), func(t *testing.T) {
				t.Parallel()
				w := newCrashWorld(t)
				for j := i; j < len(kills); j += crashWorlds {
					if w.killAt(t, kills[j], s) {
						mu.Lock()
						died++
						mu.Unlock()
					}
				}
				w.start(t)
				w.end(t)
			})
		}
	})
	t.Logf("%d points, %d kills planned, %d died", len(points), len(kills), died)
	require.GreaterOrEqual(t, died, len(kills)*3/4, "the other points were not reached again: which depends on the scheduling")
}

// failpoints are the points that the scenario passes, with how often it does.
func failpoints(t *testing.T, s scenario) map[string]int {
	t.Helper()
	w := newCrashWorld(t)
	log := filepath.Join(t.TempDir(), "points")
	w.run(t, s.play, "WASMNODE_FAILPOINT_LOG="+log)
	w.start(t)
	s.after(w, t)
	w.end(t)
	points := map[string]int{}
	for point := range strings.Lines(read(t, log)) {
		points[strings.TrimSpace(point)]++
	}
	require.Greater(t, len(points), 30)
	if s.only == nil {
		return points
	}
	for _, begins := range s.only {
		require.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(points)), func(point string) bool { return strings.HasPrefix(point, begins) }),
			"the scenario does not pass %s", begins)
	}
	maps.DeleteFunc(points, func(point string, _ int) bool {
		return !slices.ContainsFunc(s.only, func(begins string) bool { return strings.HasPrefix(point, begins) })
	})
	return points
}

// killAt plays the scenario with a kill in it, and checks what is left. It reports
// whether the point was reached.
func (w *crashWorld) killAt(t *testing.T, point string, s scenario) bool {
	t.Helper()
	mark := filepath.Join(t.TempDir(), "died")
	w.site.killSupervisor(t) // so that the agent starts one that knows of the point
	t.Logf("dying at %s", point)
	w.run(t, s.play, "WASMNODE_FAILPOINT="+point, "WASMNODE_FAILPOINT_MARK="+mark)
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL, 0o600) // from now on nobody dies there
	died := errors.Is(err, fs.ErrExist)
	if !died {
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	if died && strings.HasPrefix(point, "supervisor/") {
		w.kills++
	}
	w.start(t)
	s.after(w, t)
	w.killAgent(t)
	return died
}

// run plays with an agent, as far as it gets, and kills it.
func (w *crashWorld) run(t *testing.T, play func(*crashWorld, *testing.T), env ...string) {
	t.Helper()
	w.node = launchProcess(t, w.command(env...))
	eventually(t, func() error {
		if m := readyLine.FindStringSubmatch(w.node.log.String()); m != nil {
			w.node.address = m[1]
		} else if !w.node.hasEnded() {
			return errors.New("the agent is not ready")
		}
		return nil
	})
	if w.node.address != "" {
		play(w, t)
	}
	w.killAgent(t)
}

func (n *node) hasEnded() bool {
	select {
	case <-n.exited:
		return true
	default:
		return false
	}
}

// play runs jobs to their end, stops what has none, and has the garbage collected. It
// gives up when the agent has died.
func (w *crashWorld) play(t *testing.T) {
	t.Helper()
	var jobs []*crashJob
	for _, kind := range []crashKind{runsOn, ends, fails} {
		for _, process := range []bool{true, false} {
			jobs = append(jobs, w.newJob(kind, process))
			w.register(t, jobs[len(jobs)-1])
		}
	}
	for _, j := range jobs {
		for done := false; !done; time.Sleep(tick) {
			if w.node.hasEnded() {
				return
			}
			allocs, _, err := w.api(t).Jobs().Allocations(j.id, true, nil)
			done = err == nil && slices.ContainsFunc(allocs, func(a *nomad.AllocationListStub) bool { return a.ClientStatus == j.kind.status })
		}
	}
	for i, j := range jobs[:2] {
		w.stop(t, j)
		w.discard(t, jobs[2+i])
	}
}

// discard purges a job that has ended, with what its allocation left. The agent may die
// meanwhile: what stays of it is collected in the end.
func (w *crashWorld) discard(t *testing.T, j *crashJob) {
	t.Helper()
	delete(w.jobs, j.id)
	allocs, _, err := w.api(t).Jobs().Allocations(j.id, true, nil)
	if _, _, gone := w.api(t).Jobs().Deregister(j.id, true, nil); err != nil || gone != nil || len(allocs) == 0 {
		return
	}
	_ = w.api(t).Allocations().GC(&nomad.Allocation{ID: allocs[0].ID, NodeID: allocs[0].NodeID}, nil)
}
