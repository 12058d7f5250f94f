package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/internal/plugintest"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/runners/watcher"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

func TestMain(m *testing.M) { plugintest.Main(m) }

// world is a node over an embedded control plane, which can be ended and started
// again on the same data.
type world struct {
	t        *testing.T
	embedded *standalone.ControlPlane
	serverDB string // its file; empty: in memory
	plane    ControlPlane
	db       state.DB
	machine  *machine
	driver   string // the only one there is: the machine's
	drivers  task.Dispense
	dir      string
	gc       GC
	left     Workloads // from before the node
	readyFor func(context.Context, *structs.Allocation) error
	ready    func(context.Context) error
	leave    bool                                           // nothing behind
	disk     func(context.Context, string) (diskUse, error) // of any file system
	volumes  Volumes
	heard    string // the file of when the control plane was
	other    watcher.Elsewhere

	node *Node
	end  func()
}

func newWorld(t *testing.T) *world {
	s, err := standalone.Open(standalone.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	m := newMachine()
	empty := func(context.Context, string) (diskUse, error) { return diskUse{}, nil } // whatever the machine's is
	return &world{
		t: t, embedded: s, plane: s.ForNode(), db: state.NewMem(), machine: m, driver: "mock", drivers: m.dispense,
		dir: t.TempDir(), disk: empty, ready: func(context.Context) error { return nil },
	}
}

// start starts the node and returns when it is ready.
func (w *world) start() {
	ready := w.launch()
	select {
	case <-ready:
	case <-time.After(30 * time.Second):
		w.t.Fatal("the node is not ready")
	}
}

// launch starts the node; ready is closed when it is.
func (w *world) launch() (ready chan struct{}) {
	n, err := New(Config{
		Logger:       hclog.NewNullLogger(),
		ControlPlane: w.plane,
		State:        w.db,
		Dispense:     w.drivers,
		Workloads:    w.left,
		Volumes:      w.volumes,
		ReadyFor:     w.readyFor,
		DriversReady: w.ready,
		AllocsDir:    filepath.Join(w.dir, "alloc"),
		HeardFile:    w.heard,
		Elsewhere:    w.other,
		Identity:     structs.Node{Name: "here", Datacenter: "dc1", Region: "global"},
		GC:           w.gc,
		Ephemeral:    w.leave,
	})
	require.NoError(w.t, err)
	w.node = n
	w.embedded.SetVolumeHost(n)
	n.diskUse = w.disk
	n.UpdateDriver(w.driver, &structs.DriverInfo{Detected: true, Healthy: true})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	ready = make(chan struct{})
	go func() { ended <- n.Run(ctx, func() { close(ready) }) }()
	var once sync.Once
	w.end = func() {
		once.Do(func() {
			cancel()
			require.NoError(w.t, <-ended)
			n.checkMarked(w.t)
		})
	}
	w.t.Cleanup(w.end)
	return ready
}

// checkMarked compares the runners that are looked at with what a look at all would find.
func (n *Node) checkMarked(t *testing.T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	scan := map[string]*entry{}
	for id, e := range n.runners {
		if !e.justRuns() {
			scan[id] = e
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(scan)), slices.Sorted(maps.Keys(n.marked)))
	for id, e := range n.marked {
		require.Same(t, n.runners[id], e)
	}
}

func (w *world) run(id, kind string, change ...func(*nomad.Job)) {
	j := &nomad.Job{ID: &id, Type: &kind, TaskGroups: []*nomad.TaskGroup{{
		Name: new("g"), EphemeralDisk: &nomad.EphemeralDisk{SizeMB: new(10)},
		RestartPolicy: &nomad.RestartPolicy{Attempts: new(0), Mode: new("fail")},
		Tasks: []*nomad.Task{{
			Name: "t", Driver: w.driver, KillTimeout: new(30 * time.Second), Resources: &nomad.Resources{CPU: new(1), MemoryMB: new(10)},
			LogConfig: &nomad.LogConfig{MaxFiles: new(1), MaxFileSizeMB: new(1)},
		}},
	}}}
	for _, c := range change {
		c(j)
	}
	_, err := w.embedded.RegisterJob(&structs.JobRegistration{Job: j})
	require.NoError(w.t, err)
}

// await waits for a condition on what the control plane knows.
func (w *world) await(what string, cond func() bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		index := w.embedded.Index(standalone.TableAllocations)
		if cond() {
			return
		}
		if ctx.Err() != nil {
			for _, a := range w.embedded.Allocations() {
				w.t.Logf("%s %s %s %s %s", a.ID, a.Name, a.DesiredStatus, a.ClientStatus, a.ClientDescription)
				for name, s := range a.TaskStates {
					for _, e := range s.Events {
						w.t.Logf("    %s %s: %s", name, e.Type, e.DisplayMessage)
					}
				}
			}
			w.t.Fatal("not in time: " + what)
		}
		w.embedded.Wait(ctx, standalone.TableAllocations, index)
	}
}

// awaitStatus waits until a job's newest allocation has a status, and returns it.
func (w *world) awaitStatus(job string, status structs.ClientStatus) (a *structs.Allocation) {
	w.await(job+" "+string(status), func() bool {
		list := w.embedded.JobAllocations("default", job)
		if len(list) == 0 {
			return false
		}
		a = list[len(list)-1]
		return a.ClientStatus == status
	})
	return a
}

func user(name string) func(*nomad.Job) {
	return func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{"VERSION": name} }
}

func TestAJobRunsEndsAndIsSeen(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("b", "batch")
	a := w.awaitStatus("b", structs.ClientRunning)
	require.Equal(t, w.node.ID(), a.NodeID)
	require.Equal(t, structs.TaskRunning, a.TaskStates["t"].State)
	usage, err := w.node.AllocationUsage(t.Context(), a.ID, "")
	require.NoError(t, err)
	require.EqualValues(t, 4096, *usage.Tasks["t"].MemoryRSS)
	dir, err := w.node.Directory(a.ID)
	require.NoError(t, err)
	require.True(t, dir.Exists())
	w.machine.end(a.ID, 0)
	w.awaitStatus("b", structs.ClientComplete)
}

func TestAStoppedJobStops(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("s", "service")
	a := w.awaitStatus("s", structs.ClientRunning)
	_, err := w.embedded.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "s", Purge: true})
	require.NoError(t, err)
	w.awaitStatus("s", structs.ClientComplete)
	require.Zero(t, w.machine.running())
	// Once the control plane forgets it, nothing is left.
	w.embedded.CollectGarbage()
	require.Nil(t, w.embedded.Allocation(a.ID))
	require.Eventually(t, func() bool {
		_, err := w.node.Directory(a.ID)
		return err != nil
	}, 30*time.Second, time.Millisecond)
	require.NoDirExists(t, filepath.Join(w.dir, "alloc", a.ID))
}

func TestARestartedNodeIsTheSameAndStartsNothingTwice(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("s", "service")
	a := w.awaitStatus("s", structs.ClientRunning)
	id := w.node.ID()
	for range 2 {
		w.end()
		require.Equal(t, 1, w.machine.running(), "tasks outlive the node")
		w.start()
		require.Equal(t, id, w.node.ID())
		r, err := w.node.runner(a.ID)
		require.NoError(t, err)
		require.Equal(t, structs.ClientRunning, r.AllocState().ClientStatus)
	}
	w.end()
	w.start()
	require.Len(t, w.embedded.JobAllocations("default", "s"), 1)
	require.Equal(t, 1, w.machine.started(a.ID))
	// What was decided meanwhile is obeyed.
	w.end()
	_, err := w.embedded.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "s"})
	require.NoError(t, err)
	w.start()
	w.awaitStatus("s", structs.ClientComplete)
}

func TestANodeThatIsStoppedWhileItWaitsForPluginsWasNotReady(t *testing.T) {
	w := newWorld(t)
	waiting := make(chan struct{})
	w.ready = func(ctx context.Context) error {
		close(waiting)
		<-ctx.Done()
		return ctx.Err()
	}
	ready := w.launch()
	<-waiting
	w.run("meanwhile", "batch")
	w.awaitStatus("meanwhile", structs.ClientRunning)
	w.end()
	select {
	case <-ready:
		t.Fatal("it waited for plugins")
	default:
	}
}

// TestWhatIsRestoredWaitsForItsOwnDriversOnly: a driver that does not come holds up its own
// allocations, and neither others nor new ones.
func TestWhatIsRestoredWaitsForItsOwnDriversOnly(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("slow", "service")
	slow := w.awaitStatus("slow", structs.ClientRunning)
	w.run("quick", "batch")
	quick := w.awaitStatus("quick", structs.ClientRunning)
	w.end()

	came := make(chan struct{})
	w.readyFor = func(ctx context.Context, a *structs.Allocation) error {
		if a.JobID == "slow" {
			select {
			case <-came:
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}
	w.start()
	w.machine.end(quick.ID, 0)
	w.awaitStatus("quick", structs.ClientComplete)
	w.run("new", "batch")
	w.awaitStatus("new", structs.ClientRunning)
	w.machine.end(slow.ID, 0)
	require.Equal(t, structs.ClientRunning, w.embedded.Allocation(slow.ID).ClientStatus, "nobody has looked")
	close(came)
	w.await("its end is seen", func() bool { return w.embedded.Allocation(slow.ID).ClientStatus.Terminal() })
	require.Equal(t, 1, w.machine.started(slow.ID))
}

func TestWhatEndedWhileTheNodeWasAwayIsReported(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("b", "batch")
	a := w.awaitStatus("b", structs.ClientRunning)
	w.end()
	w.machine.end(a.ID, 0)
	w.start()
	w.awaitStatus("b", structs.ClientComplete)
	require.Equal(t, 1, w.machine.started(a.ID))
}

// faultyPlane hands out allocations that no control plane should.
type faultyPlane struct {
	ControlPlane
	spoil func(*structs.Allocation)
}

func (p faultyPlane) Allocations(ctx context.Context, nodeID string, min uint64) (*structs.Assignments, error) {
	news, err := p.ControlPlane.Allocations(ctx, nodeID, min)
	if err != nil {
		return nil, err
	}
	for i, a := range news.Changed {
		if a.JobID == "bad" {
			news.Changed[i] = a.Copy()
			p.spoil(news.Changed[i])
		}
	}
	return news, nil
}

func TestABadAllocationFailsAloneAndIsNotTriedAgain(t *testing.T) {
	for name, spoil := range map[string]func(*structs.Allocation){
		"no such group": func(a *structs.Allocation) { a.TaskGroup = "nope" },
		"no job":        func(a *structs.Allocation) { a.Job = nil },
		"no resources":  func(a *structs.Allocation) { a.Resources.Tasks = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.plane = faultyPlane{w.plane, spoil}
			w.start()
			w.run("bad", "batch")
			bad := w.awaitStatus("bad", structs.ClientFailed)
			require.Contains(t, bad.ClientDescription, "Unable to add allocation due to error")
			w.run("good", "batch")
			w.awaitStatus("good", structs.ClientRunning)
			require.Zero(t, w.machine.started(bad.ID))
			allocs, faults, err := w.db.Allocations()
			require.NoError(t, err)
			require.Empty(t, faults)
			require.Len(t, allocs, 1)
		})
	}
}

// refusing is a store that takes no allocation while there is an error.
type refusing struct {
	state.DB
	err atomic.Pointer[error]
}

func (r *refusing) PutAllocation(a *structs.Allocation) error {
	if err := r.err.Load(); err != nil {
		return *err
	}
	return r.DB.PutAllocation(a)
}

func TestWhatCannotBeMadeDurableIsNotStarted(t *testing.T) {
	w := newWorld(t)
	db := &refusing{DB: w.db}
	w.db = db
	failed := errors.New("input/output error")
	db.err.Store(&failed)
	w.start()
	w.run("b", "batch")
	a := w.awaitStatus("b", structs.ClientFailed)
	require.Contains(t, a.ClientDescription, "input/output error")
	require.Zero(t, w.machine.started(a.ID))
}

func TestAnAllocationWaitsForRoomOnTheDisk(t *testing.T) {
	w := newWorld(t)
	db := &refusing{DB: w.db}
	w.db = db
	full := fmt.Errorf("client.db: %w", boltfile.ErrFull)
	db.err.Store(&full)
	w.start()
	w.run("b", "batch")
	require.Eventually(t, func() bool {
		list := w.embedded.JobAllocations("default", "b")
		return len(list) == 1 && list[0].ClientDescription == "waiting for room on the node's disk"
	}, 30*time.Second, time.Millisecond)
	db.err.Store(nil)
	a := w.awaitStatus("b", structs.ClientRunning)
	require.Equal(t, 1, w.machine.started(a.ID))
}

func TestAStoreThatFailsAtAnyPointDoublesNothingAndLosesNothing(t *testing.T) {
	for n := 1; n < 40; n++ {
		w := newWorld(t)
		inner := w.db
		failing := state.NewFailing(inner, n)
		w.db = failing
		// The first life may fail anywhere.
		node, err := New(Config{
			Logger: hclog.NewNullLogger(), ControlPlane: w.plane, State: w.db, Dispense: w.machine.dispense,
			DriversReady: func(context.Context) error { return nil }, AllocsDir: filepath.Join(w.dir, "alloc"),
			Identity: structs.Node{Name: "here", Datacenter: "dc1"},
		})
		if err == nil {
			node.UpdateDriver("mock", &structs.DriverInfo{Detected: true, Healthy: true})
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = node.Run(ctx, func() {})
			}()
			w.run("b", "batch")
			settled := func() bool {
				list := w.embedded.JobAllocations("default", "b")
				return len(list) > 0 && list[len(list)-1].ClientStatus != structs.ClientPending
			}
			select {
			case <-ended: // it could not even restore
			default:
				require.Eventually(t, func() bool { return settled() || failing.Failed() }, 30*time.Second, time.Millisecond)
			}
			cancel()
			<-ended
		} else {
			w.run("b", "batch")
		}
		// The second life has a good store.
		w.db = inner
		w.start()
		w.await("running or ended", func() bool {
			list := w.embedded.JobAllocations("default", "b")
			return len(list) > 0 && list[len(list)-1].ClientStatus != structs.ClientPending
		})
		require.LessOrEqual(t, w.machine.running(), 1, "n=%d", n)
		w.end()
		if !failing.Failed() {
			return
		}
	}
}

func TestAReplacementWaitsForEveryPredecessor(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("s", "service", user("1"))
	first := w.awaitStatus("s", structs.ClientRunning)
	release := w.machine.hold()
	defer release()
	w.run("s", "service", user("2"))
	second := w.awaitStatus("s", structs.ClientPending)
	w.await("the second waits", func() bool {
		s := w.embedded.Allocation(second.ID).TaskStates["t"]
		return s != nil && len(s.Events) > 0
	})
	w.run("s", "service", user("3"))
	// The second ends without having run, while the first still does.
	w.await("the second ends", func() bool { return w.embedded.Allocation(second.ID).ClientStatus.Terminal() })
	third := w.awaitStatus("s", structs.ClientPending)
	require.NotEqual(t, second.ID, third.ID)
	r, err := w.node.runner(third.ID)
	for err != nil {
		r, err = w.node.runner(third.ID)
	}
	w.await("the third waits for the first", func() bool { return strings.Contains(r.Waiting(), first.ID) })
	require.Equal(t, 1, w.machine.running())
	release()
	w.await("the third runs", func() bool { return w.embedded.Allocation(third.ID).ClientStatus == structs.ClientRunning })
	require.Zero(t, w.machine.started(second.ID))
	require.True(t, w.embedded.Allocation(first.ID).ClientStatus.Terminal())
}

// slowPlane tells of allocations only when it is not held.
type slowPlane struct {
	ControlPlane
	held sync.Mutex
}

func (p *slowPlane) Allocations(ctx context.Context, nodeID string, minIndex uint64) (*structs.Assignments, error) {
	if _, err := p.ControlPlane.Allocations(ctx, nodeID, minIndex); err != nil {
		return nil, err
	}
	p.held.Lock()
	defer p.held.Unlock()
	return p.ControlPlane.Allocations(ctx, nodeID, 0)
}

func TestAReplacementWaitsAfterARestartThoughItsPredecessorNeverReachedTheNode(t *testing.T) {
	w := newWorld(t)
	plane := &slowPlane{ControlPlane: w.plane}
	w.plane = plane
	w.start()
	w.run("s", "service", user("1"))
	first := w.awaitStatus("s", structs.ClientRunning)
	release := w.machine.hold()
	defer release()
	plane.held.Lock()
	tell := sync.OnceFunc(plane.held.Unlock)
	defer tell()
	w.run("s", "service", user("2"))
	second := w.awaitStatus("s", structs.ClientPending)
	w.run("s", "service", user("3"))
	third := w.awaitStatus("s", structs.ClientPending)
	tell()
	require.Equal(t, []string{first.ID, second.ID}, []string{second.PreviousAllocation, third.PreviousAllocation})
	w.await("the second ends", func() bool { return w.embedded.Allocation(second.ID).ClientStatus.Terminal() })
	require.Equal(t, "stopped before it reached the node", w.embedded.Allocation(second.ID).ClientDescription)
	w.await("the third waits", func() bool { return len(w.embedded.Allocation(third.ID).TaskStates) > 0 })
	w.end()
	w.start()
	r, err := w.node.runner(third.ID)
	require.NoError(t, err)
	require.Equal(t, first.ID, r.Alloc().PreviousAllocation, "the nearest that the node has")
	release()
	w.await("the third runs", func() bool { return w.embedded.Allocation(third.ID).ClientStatus == structs.ClientRunning })
	ended, started := w.embedded.Allocation(first.ID).TaskStates["t"].FinishedAt, w.embedded.Allocation(third.ID).TaskStates["t"].StartedAt
	require.False(t, ended.IsZero())
	require.False(t, started.Before(ended), "the first ended before the third started")
}

// unreachablePlane cannot be reached until it hears.
type unreachablePlane struct {
	ControlPlane
	mu    sync.Mutex
	hears bool
}

func (p *unreachablePlane) Register(ctx context.Context, n *structs.Node) (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.hears {
		return 0, errors.New("connection refused")
	}
	return p.ControlPlane.Register(ctx, n)
}

func TestWhatWasStoredRunsOnWithoutTheControlPlane(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("b", "batch")
	a := w.awaitStatus("b", structs.ClientRunning)
	w.end()
	plane := &unreachablePlane{ControlPlane: w.plane}
	w.plane = plane
	ready := w.launch()
	require.Eventually(t, func() bool {
		r, err := w.node.runner(a.ID)
		return err == nil && r.AllocState().ClientStatus == structs.ClientRunning
	}, 30*time.Second, time.Millisecond)
	select {
	case <-ready:
		t.Fatal("ready without a control plane")
	default:
	}
	plane.mu.Lock()
	plane.hears = true
	plane.mu.Unlock()
	<-ready
	require.Equal(t, 1, w.machine.started(a.ID))
}

// missingPlane says of allocations that it does not know what has become of them.
type missingPlane struct{ ControlPlane }

func (p missingPlane) Allocations(ctx context.Context, nodeID string, min uint64) (*structs.Assignments, error) {
	news, err := p.ControlPlane.Allocations(ctx, nodeID, min)
	if err != nil {
		return nil, err
	}
	for i, a := range news.Changed {
		a = a.Copy()
		a.ClientStatus = structs.ClientUnknown
		a.AllocModifyIndex++
		news.Changed[i] = a
	}
	return news, nil
}

// That a control plane was away for some time is nothing that a task has to be told of.
func TestATaskHasAnEventWhenTheControlPlaneHadMissedItsNode(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("s", "service")
	w.awaitStatus("s", structs.ClientRunning)
	w.end()
	plain := w.plane
	events := func() (n int) {
		for _, e := range w.awaitStatus("s", structs.ClientRunning).TaskStates["t"].Events {
			if e.Type == structs.EventReconnected {
				n++
			}
		}
		return n
	}
	w.plane = missingPlane{plain}
	w.start()
	w.await("the event", func() bool { return events() == 1 })
	w.end()
	w.plane = plain
	w.start()
	require.Equal(t, 1, events())
	require.Equal(t, 1, w.machine.started(w.awaitStatus("s", structs.ClientRunning).ID))
}

func TestANodeEndsThoughTheControlPlaneNeverAnswers(t *testing.T) {
	w := newWorld(t)
	w.plane = &unreachablePlane{ControlPlane: w.plane}
	w.launch()
	w.end()
}

func TestWhatWasStoppedBeforeItReachedTheNodeIsReportedEnded(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.end()
	w.run("s", "service")
	_, err := w.embedded.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "s"})
	require.NoError(t, err)
	w.start()
	a := w.awaitStatus("s", structs.ClientComplete)
	require.Zero(t, w.machine.started(a.ID))
}

// stopsTogether is a driver whose stops end when all tasks are being stopped.
type stopsTogether struct {
	task.Driver
	missing *atomic.Int64
	all     chan struct{} // closed when none is missing
}

func (d stopsTogether) StopTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, signal string, timeout time.Duration) (*wasmnodev1.TaskHandle, error) {
	if d.missing.Add(-1) == 0 {
		close(d.all)
	}
	select {
	case <-d.all:
	case <-ctx.Done():
	}
	return d.Driver.StopTask(ctx, cfg, h, signal, timeout)
}

func TestANodeThatLeavesNothingEndsAllAllocationsSideBySide(t *testing.T) {
	w := newWorld(t)
	w.leave = true
	jobs := []string{"one", "two", "three"}
	var missing atomic.Int64
	missing.Store(int64(len(jobs)))
	all := make(chan struct{})
	w.drivers = func(name string) (task.Driver, error) {
		d, err := w.machine.dispense(name)
		return stopsTogether{d, &missing, all}, err
	}
	w.start()
	for _, id := range jobs {
		w.run(id, "service", func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].KillTimeout = new(15 * time.Second) })
		w.awaitStatus(id, structs.ClientRunning)
	}
	began := time.Now()
	w.end()
	require.Less(t, time.Since(began), 15*time.Second, "one waited for another")
	require.Zero(t, w.machine.running())
}

func TestOperationsOnAnUnknownAllocationAreNotFound(t *testing.T) {
	w := newWorld(t)
	w.start()
	require.ErrorIs(t, w.node.RestartAllocation(t.Context(), "x", "", false), errdefs.NotFound)
	require.ErrorIs(t, w.node.SignalAllocation(t.Context(), "x", "", "HUP"), errdefs.NotFound)
	_, err := w.node.AllocationUsage(t.Context(), "x", "")
	require.ErrorIs(t, err, errdefs.NotFound)
	_, err = w.node.Directory("x")
	require.ErrorIs(t, err, errdefs.NotFound)
	usage, err := w.node.HostUsage()
	require.NoError(t, err)
	require.NotZero(t, usage.Memory.Total)
	require.NotEmpty(t, usage.Processors)
	require.Positive(t, usage.CPUMHz)
}

func TestTheNodeKnowsTheMachine(t *testing.T) {
	w := newWorld(t)
	w.start()
	n := w.embedded.Node(w.node.ID())
	for _, key := range []string{"cpu.arch", "cpu.numcores", "kernel.name", "kernel.version", "os.name", "memory.totalbytes", "unique.hostname"} {
		require.NotEmpty(t, n.Attributes[key], key)
	}
	require.Positive(t, n.Resources.CPUMHz)
	require.Positive(t, n.Resources.MemoryMB)
	require.Positive(t, n.Resources.DiskMB)
	require.Equal(t, "1", n.Attributes["driver.mock"], "the first registration has the first drivers")
}
