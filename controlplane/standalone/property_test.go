package standalone

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/structs"
)

var randomJobs = []string{"service-a", "service-b", "batch", "system"}

// randomLife is a control plane to which random things happen, and its node.
type randomLife struct {
	*ControlPlane
	path string
	node *structs.Node
	ids  int
	// preempted are those whose preemption was looked at.
	preempted map[string]bool
	// variables are what they have to be.
	variables map[string]string
}

func (h *randomLife) open(t require.TestingT) {
	cp, err := Open(Options{Path: h.path})
	require.NoError(t, err)
	h.ControlPlane = cp
	require.NoError(t, cp.write(func(tx *tx) error {
		cp.newID = func() string { // so that a failure can be repeated
			h.ids++
			return fmt.Sprintf("00000000-0000-0000-0000-%012d", h.ids)
		}
		return nil
	}))
}

// restart opens what is stored, as after a kill: what was told to anybody is stored.
func (h *randomLife) restart(t *rapid.T) {
	before := memoryOf(t, h.ControlPlane)
	require.NoError(t, h.Close())
	h.open(t)
	require.Zero(t, h.Unreadable())
	require.Equal(t, before, memoryOf(t, h.ControlPlane))
}

// changeVariable writes a variable, or deletes one, with or without the right index.
func (h *randomLife) changeVariable(t *rapid.T) {
	path := rapid.SampledFrom([]string{"a", "a/b", "nomad/jobs"}).Draw(t, "path")
	var check *uint64
	fits := true
	if rapid.Bool().Draw(t, "check") {
		check = new(uint64)
		if v, err := h.Variable("default", path); v != nil && rapid.Bool().Draw(t, "right") {
			require.NoError(t, err)
			*check = v.ModifyIndex
		}
		fits = (*check != 0) == (h.variables[path] != "")
	}
	value := rapid.SampledFrom([]string{"", "1", "two"}).Draw(t, "value")
	var conflict *nomad.Variable
	var err error
	if value == "" {
		conflict, err = h.DeleteVariable("default", path, check)
	} else {
		_, conflict, err = h.PutVariable(&nomad.Variable{Namespace: "default", Path: path, Items: nomad.VariableItems{"k": value}}, check)
	}
	require.NoError(t, err)
	require.Equal(t, fits, conflict == nil)
	if fits {
		h.variables[path] = value
	}
	for path, want := range h.variables {
		v, err := h.Variable("default", path)
		require.NoError(t, err)
		if want == "" {
			require.Nil(t, v)
			continue
		}
		require.Equal(t, nomad.VariableItems{"k": want}, v.Items)
	}
}

func (h *randomLife) rotate(t *rapid.T) {
	if len(h.RootKeys()) < 5 {
		_, err := h.RotateRootKey(rapid.Bool().Draw(t, "full"))
		require.NoError(t, err)
	}
	for _, k := range h.RootKeys() {
		if k.State == nomad.RootKeyStateInactive && rapid.Bool().Draw(t, "remove") {
			_ = h.DeleteRootKey(k.KeyID, false) // it may be in use
		}
	}
}

func (h *randomLife) register(t *rapid.T) {
	id := rapid.SampledFrom(randomJobs).Draw(t, "job")
	kind := map[string]string{"service-a": "service", "service-b": "service"}[id]
	if kind == "" {
		kind = id
	}
	job := testJob(id, kind, user(rapid.SampledFrom([]string{"", "u"}).Draw(t, "user")),
		memory(rapid.SampledFrom([]int{10, 200, 600}).Draw(t, "memory")), priority(rapid.SampledFrom([]int{10, 50, 90}).Draw(t, "priority")),
		func(j *nomad.Job) {
			g := j.TaskGroups[0]
			if kind != "system" {
				g.Count = new(rapid.IntRange(0, 3).Draw(t, "count"))
			}
			if kind == "service" {
				reschedule(5 * time.Second)(j)
			}
			if kind != "batch" {
				g.Update = &nomad.UpdateStrategy{MaxParallel: new(rapid.IntRange(0, 2).Draw(t, "max_parallel")), Canary: new(rapid.IntRange(0, 1).Draw(t, "canary")), AutoRevert: new(rapid.Bool().Draw(t, "auto_revert"))}
			}
			if rapid.Bool().Draw(t, "cores") {
				g.Tasks[0].Resources.CPU, g.Tasks[0].Resources.Cores = nil, new(2)
			}
			if rapid.IntRange(0, 3).Draw(t, "port") == 0 {
				g.Networks = []*nomad.NetworkResource{{ReservedPorts: []nomad.Port{{Label: "p", Value: 80}}}}
			}
		})
	_, err := h.RegisterJob(&structs.JobRegistration{Job: job, PreserveCounts: rapid.Bool().Draw(t, "preserve")})
	require.NoError(t, err)
}

func (h *randomLife) stop(t *rapid.T) {
	id := rapid.SampledFrom(randomJobs).Draw(t, "job")
	if h.Job("default", id) == nil {
		return
	}
	_, err := h.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: id, Purge: rapid.Bool().Draw(t, "purge")})
	require.NoError(t, err)
}

// mayRun reports whether all that an allocation waits for has ended, and all that this did.
func (h *randomLife) mayRun(a *structs.Allocation) bool {
	for id := range a.WaitsFor {
		if p := h.Allocation(id); p != nil && p.NodeID == a.NodeID && (!p.ClientStatus.Terminal() || !h.mayRun(p)) {
			return false
		}
	}
	return true
}

// report has the node start, judge and end allocations; with all: whatever can.
func (h *randomLife) report(t *rapid.T, all bool) {
	for _, a := range h.Allocations() {
		now := h.Allocation(a.ID)
		if now == nil || now.NodeID != h.node.ID || now.ClientStatus.Terminal() || !all && rapid.Bool().Draw(t, "later") {
			continue
		}
		s := &structs.AllocationState{ID: a.ID, ClientStatus: structs.ClientRunning}
		switch {
		case now.ServerTerminal():
			s.ClientStatus = structs.ClientComplete
		case !h.mayRun(now):
			continue
		case !all && rapid.IntRange(0, 3).Draw(t, "end") == 0:
			s.ClientStatus = rapid.SampledFrom([]structs.ClientStatus{structs.ClientComplete, structs.ClientFailed}).Draw(t, "how")
		}
		if now.DeploymentID != "" {
			healthy := s.ClientStatus == structs.ClientRunning && (all || rapid.IntRange(0, 3).Draw(t, "unwell") > 0)
			s.DeploymentStatus = &structs.DeploymentStatus{Healthy: &healthy, DeploymentID: now.DeploymentID}
		}
		require.NoError(t, h.ForNode().UpdateAllocations(context.Background(), h.node.ID, []*structs.AllocationState{s}))
	}
}

func (h *randomLife) changeNode(t *rapid.T) {
	var err error
	switch rapid.IntRange(0, 4).Draw(t, "what") {
	case 0:
		h.node = h.node.Copy()
		h.node.Drivers["mock"] = &structs.DriverInfo{Detected: true, Healthy: rapid.Bool().Draw(t, "healthy")}
		_, err = h.ForNode().Register(context.Background(), h.node)
	case 1: // it has lost its identity
		h.node = h.node.Copy()
		h.node.ID = h.newID()
		_, err = h.ForNode().Register(context.Background(), h.node)
	case 2:
		_, err = h.SetDrain(&structs.DrainRequest{NodeID: h.node.ID, Drain: &structs.Drain{Deadline: time.Hour}})
	case 3:
		_, err = h.SetDrain(&structs.DrainRequest{NodeID: h.node.ID, MarkEligible: true})
	case 4:
		c := *h.SchedulerConfiguration()
		c.PreemptionConfig.ServiceSchedulerEnabled = rapid.Bool().Draw(t, "preempt")
		_, err = h.SetSchedulerConfiguration(c, nil)
	}
	require.NoError(t, err)
}

// later does what is due after a time.
func (h *randomLife) later(t require.TestingT, after time.Duration) {
	require.NoError(t, h.write(func(tx *tx) error {
		tx.now = tx.now.Add(after)
		return tx.doDue()
	}))
}

func (h *randomLife) check(t *rapid.T) {
	h.checkIndexes(t)
	h.checkRoom(t)
	require.NoError(t, h.dryRun(func(tx *tx) error {
		for key, j := range h.data.jobs {
			require.Equal(t, tx.status(key, j), *j.Status)
		}
		for _, n := range tx.draining() {
			services := slices.DeleteFunc(tx.liveByNode.in(n.ID), func(a *schedule.Alloc) bool { return *a.Job.Type != nomad.JobTypeService })
			require.Empty(t, tx.mayLeave(services), "a drain waits for nothing that is stored")
		}
		return nil
	}))
	for _, a := range h.Allocations() {
		j := h.Job(a.Namespace, a.JobID)
		require.True(t, a.Terminal() || j != nil && !*j.Stop, "of a stopped job one is to run")
		// Once, since the job of who preempted may have another priority later.
		if by := h.Allocation(a.PreemptedByAllocation); by != nil && !h.preempted[a.ID] {
			h.preempted[a.ID] = true
			require.LessOrEqual(t, *a.Job.Priority+schedule.MinPreemption, *by.Job.Priority)
		}
	}
	for _, j := range h.Jobs() {
		if n := h.wanted(*j.ID); *j.Type != "system" {
			require.LessOrEqual(t, n, *j.TaskGroups[0].Count+1, "with a canary")
		}
	}
}

func (h *randomLife) wanted(id string) (n int) {
	for _, a := range h.JobAllocations("default", id) {
		if !a.Terminal() {
			n++
		}
	}
	return n
}

// checkIndexes compares the indexes with those that are made of the rows anew.
func (h *randomLife) checkIndexes(t require.TestingT) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	fresh := &ControlPlane{data: h.data, now: time.Now}
	fresh.data.committedIndexes = newIndexes()
	fresh.reindex()
	for node, taken := range h.data.taken {
		if fresh.data.taken[node] == nil {
			require.Equal(t, schedule.NewTaken(nil), taken)
			fresh.data.taken[node] = taken
		}
	}
	have, want := h.data.committedIndexes, fresh.data.committedIndexes
	sameTimes(t, have.pendingEvals, want.pendingEvals)
	sameTimes(t, have.deadlines, want.deadlines)
	sameTimes(t, have.launches, want.launches)
	require.True(t, slices.Equal(want.variablesByPath.rows, have.variablesByPath.rows), "variables are not those of the rows, in their order")
	have.pendingEvals, have.deadlines, have.launches = want.pendingEvals, want.deadlines, want.launches
	have.variablesByPath = want.variablesByPath // its order is a function
	require.True(t, reflect.DeepEqual(have, want), "an index is not that of the rows")
}

func sameTimes[K comparable](t require.TestingT, have, want *timeline[K]) {
	at := func(l *timeline[K]) map[K]int64 {
		m := map[K]int64{}
		for _, e := range l.entries {
			m[e.key] = e.at.UnixNano()
		}
		return m
	}
	require.Equal(t, at(want), at(have))
}

// checkRoom adds up what may run on the node now.
func (h *randomLife) checkRoom(t require.TestingT) {
	cpu, mem := 0, 0
	owner := map[string]string{}
	for _, a := range h.Allocations() {
		if a.NodeID != h.node.ID || a.ClientStatus.Terminal() || !h.mayRun(a) {
			continue
		}
		task := a.Resources.Tasks["t"]
		cpu, mem = cpu+task.CPUMHz, mem+task.MemoryMB
		for _, core := range task.Cores {
			require.Empty(t, owner[fmt.Sprint("core ", core)], "a core is given twice")
			owner[fmt.Sprint("core ", core)] = a.ID
		}
		for _, p := range a.Resources.Ports {
			require.Empty(t, owner[fmt.Sprint("port ", p.Value)], "a port is given twice")
			owner[fmt.Sprint("port ", p.Value)] = a.ID
		}
	}
	require.LessOrEqual(t, cpu, h.node.Resources.CPUMHz)
	require.LessOrEqual(t, mem, h.node.Resources.MemoryMB)
}

// settle has all be well until nothing changes any more.
func (h *randomLife) settle(t *rapid.T) {
	h.node = h.node.Copy()
	h.node.Drivers["mock"] = &structs.DriverInfo{Detected: true, Healthy: true}
	_, err := h.ForNode().Register(context.Background(), h.node)
	require.NoError(t, err)
	_, err = h.SetDrain(&structs.DrainRequest{NodeID: h.node.ID, MarkEligible: true})
	require.NoError(t, err)
	for round, index := 0, uint64(0); ; round++ {
		require.Less(t, round, 40, "it does not converge")
		h.report(t, true)
		for _, d := range h.Deployments() {
			if d.RequiresPromotion() {
				_, _ = h.PromoteDeployment(d.ID, nil) // which may be too early
			}
		}
		h.later(t, time.Hour)
		h.check(t)
		now := last(t, h.ControlPlane)
		if now == index {
			break
		}
		index = now
	}
	for _, a := range h.Allocations() {
		j := h.Job(a.Namespace, a.JobID)
		require.True(t, a.ClientStatus.Terminal() || j != nil && !*j.Stop, "a stopped job has left something")
	}
	require.NoError(t, h.dryRun(func(tx *tx) error {
		for _, e := range tx.openByStatus.in(structs.EvaluationBlocked) {
			again := *e
			require.False(t, tx.schedule(&again, nil).Changes(), "what waits has room")
		}
		return nil
	}))
}

// TestWhateverHappensTheControlPlaneKeepsItsPromises: what is stored is what is known,
// nothing is promised twice, a stopped job leaves nothing, and all comes to an end.
func TestWhateverHappensTheControlPlaneKeepsItsPromises(t *testing.T) {
	t.Setenv(boltfile.StrictEnv, "0") // which reads all of the file after each write
	dir := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		h := &randomLife{path: filepath.Join(dir, fmt.Sprint(runs)), node: testNode(), preempted: map[string]bool{}, variables: map[string]string{}}
		h.open(t)
		defer func() { require.NoError(t, h.Close()) }()
		_, err := h.ForNode().Register(context.Background(), h.node)
		require.NoError(t, err)
		t.Repeat(map[string]func(*rapid.T){
			"register": h.register,
			"stop":     h.stop,
			"report":   func(t *rapid.T) { h.report(t, false) },
			"node":     h.changeNode,
			"later":    func(t *rapid.T) { h.later(t, 7*time.Second) },
			"garbage":  func(*rapid.T) { h.CollectGarbage() },
			"variable": h.changeVariable,
			"rotate":   h.rotate,
			"restart":  h.restart,
			"":         h.check,
		})
		h.settle(t)
	})
}
