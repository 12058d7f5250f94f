// Package statetest is the conformance suite of state.DB: every store runs it, ours
// and anyone else's. Start reading at [Run].
package statetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// Store describes how to make the store under test, and what it can do.
type Store struct {
	// Open returns an empty store. Required.
	Open func(t *testing.T) state.DB
	// Reopen closes a store as a process that ends does, and returns what a new
	// process would find. Nil: the store does not outlive its process.
	Reopen func(t *testing.T, db state.DB) state.DB
	// Forgets is set for a store that keeps nothing.
	Forgets bool
}

// Run runs the suite.
func Run(t *testing.T, store Store) {
	for name, test := range map[string]func(*testing.T, Store){
		"an empty store finds nothing and that is not an error": empty,
		"deleting what is not there is not an error":            deleteAbsent,
		"a closed store fails and closes again":                 closed,
		"concurrent writers all get through":                    concurrent,
	} {
		t.Run(name, func(t *testing.T) { test(t, store) })
	}
	if store.Forgets {
		return
	}
	for name, test := range map[string]func(*testing.T, Store){
		"what was put is read back in full":                    roundTrip,
		"what was read is not shared":                          notShared,
		"a later value replaces an earlier one":                replaced,
		"deleting an allocation deletes its tasks and no more": deletes,
		"task state without its allocation is reported":        orphaned,
	} {
		t.Run(name, func(t *testing.T) { test(t, store) })
	}
}

// open returns an empty store that is closed at the test's end.
func (s Store) open(t *testing.T) state.DB {
	db := s.Open(t)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// reopened is the store after a restart of the process, where it survives one.
func (s Store) reopened(t *testing.T, db state.DB) state.DB {
	if s.Reopen == nil {
		return db
	}
	db = s.Reopen(t, db)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func empty(t *testing.T, s Store) {
	db := s.open(t)
	require.NotEmpty(t, db.Name())
	allocs, faults, err := db.Allocations()
	require.NoError(t, err)
	require.Empty(t, allocs)
	require.Empty(t, faults)
	as, err := db.AllocationState("a")
	require.NoError(t, err)
	require.Nil(t, as)
	local, ts, err := db.Task("a", "t")
	require.NoError(t, err)
	require.Nil(t, local)
	require.Nil(t, ts)
	node, err := db.Node()
	require.NoError(t, err)
	require.Nil(t, node)
	seen, err := db.Seen()
	require.NoError(t, err)
	require.Nil(t, seen)
	devices, err := db.Devices()
	require.NoError(t, err)
	require.Nil(t, devices)
	drivers, err := db.Drivers()
	require.NoError(t, err)
	require.Nil(t, drivers)
	meta, err := db.NodeMeta()
	require.NoError(t, err)
	require.Nil(t, meta)
}

func deleteAbsent(t *testing.T, s Store) {
	require.NoError(t, s.open(t).DeleteAllocation("nobody"))
}

func closed(t *testing.T, s Store) {
	db := s.Open(t)
	require.NoError(t, db.Close())
	require.NoError(t, db.Close())
	_, _, err := db.Allocations()
	require.Error(t, err)
	_, err = db.AllocationState("a")
	require.Error(t, err)
	_, _, err = db.Task("a", "t")
	require.Error(t, err)
	_, err = db.Node()
	require.Error(t, err)
	require.Error(t, db.PutNode(&state.NodeIdentity{}))
	_, err = db.Seen()
	require.Error(t, err)
	require.Error(t, db.PutSeen(&state.Seen{}))
	_, err = db.Devices()
	require.Error(t, err)
	require.Error(t, db.PutDevices(Devices()))
	_, err = db.Drivers()
	require.Error(t, err)
	require.Error(t, db.PutDrivers(Drivers()))
	_, err = db.NodeMeta()
	require.Error(t, err)
	require.Error(t, db.PutNodeMeta(&state.NodeMeta{}))
	_, err = db.PluginValues("p")
	require.Error(t, err)
	require.Error(t, db.PutPluginValue("p", "k", &state.PluginValue{}))
	require.Error(t, db.DeletePluginValue("p", "k"))
	require.Error(t, db.PutAllocation(Allocation("a")))
	require.Error(t, db.PutAllocationState(AllocationState("a")))
	require.Error(t, db.PutTaskLocal("a", "t", Local()))
	require.Error(t, db.PutTaskState("a", "t", TaskState()))
	require.Error(t, db.PutTask("a", "t", Local(), TaskState()))
	require.Error(t, db.DeleteAllocation("a"))
}

func concurrent(t *testing.T, s Store) {
	db := s.open(t)
	const writers, tasks = 8, 8
	var wg sync.WaitGroup
	for w := range writers {
		id := fmt.Sprintf("alloc-%d", w)
		wg.Go(func() {
			if err := db.PutAllocation(Allocation(id)); err != nil {
				t.Error(err)
			}
			for n := range tasks {
				if err := db.PutTaskLocal(id, fmt.Sprint(n), Local()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if s.Forgets {
		return
	}
	db = s.reopened(t, db)
	allocs, faults, err := db.Allocations()
	require.NoError(t, err)
	require.Empty(t, faults)
	require.Len(t, allocs, writers)
	for _, a := range allocs {
		for n := range tasks {
			local, _, err := db.Task(a.ID, fmt.Sprint(n))
			require.NoError(t, err)
			require.Equal(t, Local(), local)
		}
	}
}

func roundTrip(t *testing.T, s Store) {
	db := s.open(t)
	require.NoError(t, db.PutNode(&state.NodeIdentity{ID: "n", SecretID: "s"}))
	require.NoError(t, db.PutSeen(&state.Seen{BootID: "b", ControlPlane: "c", Index: 7}))
	require.NoError(t, db.PutDevices(Devices()))
	require.NoError(t, db.PutDrivers(Drivers()))
	meta := &state.NodeMeta{Dynamic: map[string]*string{"rack": new("7"), "gone": nil}}
	require.NoError(t, db.PutNodeMeta(meta))
	require.NoError(t, db.PutAllocation(Allocation("a")))
	require.NoError(t, db.PutAllocationState(AllocationState("a")))
	require.NoError(t, db.PutTaskLocal("a", "web", Local()))
	require.NoError(t, db.PutTaskState("a", "web", TaskState()))
	require.NoError(t, db.PutTask("a", "both", Local(), TaskState()))

	v := &state.PluginValue{Version: 7, Value: []byte{0, 0xff}}
	require.NoError(t, db.PutPluginValue("driver/p", "a/b", v))
	require.NoError(t, db.PutPluginValue("driver/p", "gone", v))
	require.NoError(t, db.DeletePluginValue("driver/p", "gone"))
	require.NoError(t, db.DeletePluginValue("driver/p", "never there"))
	require.NoError(t, db.PutPluginValue("driver/q", "k", v))

	db = s.reopened(t, db)
	kept, err := db.PluginValues("driver/p")
	require.NoError(t, err)
	require.Equal(t, map[string]*state.PluginValue{"a/b": v}, kept)
	node, err := db.Node()
	require.NoError(t, err)
	require.Equal(t, &state.NodeIdentity{ID: "n", SecretID: "s"}, node)
	seen, err := db.Seen()
	require.NoError(t, err)
	require.Equal(t, &state.Seen{BootID: "b", ControlPlane: "c", Index: 7}, seen)
	devices, err := db.Devices()
	require.NoError(t, err)
	require.Equal(t, Devices(), devices)
	drivers, err := db.Drivers()
	require.NoError(t, err)
	require.Equal(t, Drivers(), drivers)
	got, err := db.NodeMeta()
	require.NoError(t, err)
	require.Equal(t, meta, got)
	allocs, faults, err := db.Allocations()
	require.NoError(t, err)
	require.Empty(t, faults)
	require.Equal(t, []*structs.Allocation{Allocation("a")}, allocs)
	as, err := db.AllocationState("a")
	require.NoError(t, err)
	require.Equal(t, AllocationState("a"), as)
	for _, task := range []string{"web", "both"} {
		local, ts, err := db.Task("a", task)
		require.NoError(t, err)
		require.Equal(t, Local(), local)
		require.Equal(t, TaskState(), ts)
	}
}

func notShared(t *testing.T, s Store) {
	db := s.open(t)
	put := Local()
	require.NoError(t, db.PutAllocation(Allocation("a")))
	require.NoError(t, db.PutTaskLocal("a", "web", put))
	put.Hooks["dir"].Env["A"] = "changed after the write"
	first, _, err := db.Task("a", "web")
	require.NoError(t, err)
	first.Handle[0]++
	second, _, err := db.Task("a", "web")
	require.NoError(t, err)
	require.Equal(t, Local(), second)
}

func replaced(t *testing.T, s Store) {
	db := s.open(t)
	local := Local()
	require.NoError(t, db.PutTaskLocal("a", "web", local))
	local.TaskID, local.Handle = "another", nil
	require.NoError(t, db.PutTaskLocal("a", "web", local))
	require.NoError(t, db.PutTaskLocal("a", "web", local))
	require.NoError(t, db.PutDevices(Devices()))
	require.NoError(t, db.PutDevices(&state.DeviceState{}))
	db = s.reopened(t, db)
	devices, err := db.Devices()
	require.NoError(t, err)
	require.Empty(t, devices.Owed)
	got, ts, err := db.Task("a", "web")
	require.NoError(t, err)
	require.Nil(t, ts)
	require.Equal(t, local, got)
}

func deletes(t *testing.T, s Store) {
	db := s.open(t)
	for _, id := range []string{"a", "ab"} {
		require.NoError(t, db.PutAllocation(Allocation(id)))
		require.NoError(t, db.PutAllocationState(AllocationState(id)))
		require.NoError(t, db.PutTaskLocal(id, "web", Local()))
		require.NoError(t, db.PutTaskState(id, "web", TaskState()))
	}
	require.NoError(t, db.DeleteAllocation("a"))
	db = s.reopened(t, db)
	allocs, faults, err := db.Allocations()
	require.NoError(t, err)
	require.Empty(t, faults)
	require.Equal(t, []*structs.Allocation{Allocation("ab")}, allocs)
	as, err := db.AllocationState("a")
	require.NoError(t, err)
	require.Nil(t, as)
	local, ts, err := db.Task("a", "web")
	require.NoError(t, err)
	require.Nil(t, local)
	require.Nil(t, ts)
	local, ts, err = db.Task("ab", "web")
	require.NoError(t, err)
	require.NotNil(t, local)
	require.NotNil(t, ts)
	// The same value is written again after it was deleted.
	require.NoError(t, db.PutTaskLocal("a", "web", Local()))
	local, _, err = db.Task("a", "web")
	require.NoError(t, err)
	require.Equal(t, Local(), local)
}

func orphaned(t *testing.T, s Store) {
	db := s.open(t)
	require.NoError(t, db.PutAllocation(Allocation("whole")))
	require.NoError(t, db.PutTaskState("half", "web", TaskState()))
	allocs, faults, err := db.Allocations()
	require.NoError(t, err)
	require.Len(t, allocs, 1)
	require.Len(t, faults, 1)
	require.ErrorContains(t, faults["half"], "half")
}

// Allocation is an allocation with something in every kind of field.
func Allocation(id string) *structs.Allocation {
	count, name := 2, "g"
	return &structs.Allocation{
		ID:        id,
		Namespace: "default",
		Name:      "job.g[0]",
		JobID:     "job",
		TaskGroup: name,
		Job: &nomad.Job{
			ID: &id,
			TaskGroups: []*nomad.TaskGroup{{
				Name: &name, Count: &count,
				Tasks: []*nomad.Task{{Name: "web", Driver: "mock", Config: map[string]any{"run_for": "1s", "list": []any{"x"}}}},
			}},
		},
		Resources: structs.AllocatedResources{
			Tasks: map[string]*structs.TaskResources{"web": {CPUMHz: 100, MemoryMB: 10}},
			Ports: []structs.AllocatedPort{{Label: "http", Value: 20000}},
		},
		DesiredStatus: structs.DesiredRun,
		ClientStatus:  structs.ClientPending,
		ModifyIndex:   7,
	}
}

// AllocationState is a state with something in every kind of field.
func AllocationState(id string) *structs.AllocationState {
	healthy := true
	return &structs.AllocationState{
		ID:               id,
		ClientStatus:     structs.ClientRunning,
		TaskStates:       map[string]*structs.TaskState{"web": TaskState()},
		DeploymentStatus: &structs.DeploymentStatus{Healthy: &healthy, Timestamp: time.Unix(5, 6).UTC()},
	}
}

// Drivers is a driver manager's state.
func Drivers() *state.DriverState {
	return &state.DriverState{Owed: []state.NetworkRelease{{Driver: "docker", AllocID: "a"}, {Driver: "podman", AllocID: "b"}}}
}

// Devices is a device manager's state with something in every kind of field.
func Devices() *state.DeviceState {
	return &state.DeviceState{Owed: []state.DeviceRelease{{
		Devices: structs.AllocatedDevice{Vendor: "acme", Type: "gpu", Name: "x1", DeviceIDs: []string{"a", "b"}},
		User:    structs.DeviceUser{AllocID: "a", Task: "web", JobID: "job", TaskGroup: "g", Namespace: "default"},
	}}}
}

// Local is a task's state with something in every kind of field.
func Local() *state.TaskLocal {
	return &state.TaskLocal{
		Hooks: map[string]*state.HookState{"dir": {
			Done: true, Env: map[string]string{"A": "b"}, Data: map[string]string{"k": "v"},
			Mounts:  []structs.Mount{{TaskPath: "/a", HostPath: "/b", ReadOnly: true}},
			Devices: []structs.DeviceNode{{TaskPath: "/dev/a", HostPath: "/dev/b", Permissions: "rw"}},
		}},
		TaskID: "id", Driver: "mock", PluginDigest: "sha256:00",
		Config: []byte{1, 2}, Handle: []byte{3, 0, 255},
		Restarts: state.RestartWindow{Count: 2, Start: 99},
	}
}

// TaskState is a task state with an event.
func TaskState() *structs.TaskState {
	s := &structs.TaskState{}
	s.Enter(structs.TaskRunning, time.Unix(1, 2))
	e := structs.NewTaskEvent(structs.EventStarted)
	e.Time = 3
	s.Append(e)
	return s
}
