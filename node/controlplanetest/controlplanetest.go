// Package controlplanetest is the conformance suite of node.ControlPlane: the embedded
// control plane runs it, and so can anyone else's. Start reading at [Run].
package controlplanetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/node"
	"github.com/wasmnode/wasmnode/structs"
)

// Plane is a control plane under test, with what a test needs to move it.
type Plane struct {
	node.ControlPlane
	// Place has a new allocation of another job placed on the node, which is registered,
	// and returns its ID.
	Place func(t *testing.T) string
	// Stop has the allocation that was placed last stopped.
	Stop func(t *testing.T, allocID string)
	// Status is an allocation's client status as the control plane has it.
	Status func(t *testing.T, allocID string) structs.ClientStatus
}

// Node is a node on which everything that the suite places may run.
func Node() *structs.Node {
	return &structs.Node{
		ID: "5b9fc6a4-6c66-4fbc-9ba6-0b8a3f7f4a11", Name: "conformance", Datacenter: "dc1", Region: "global",
		Status: structs.NodeReady, Eligibility: structs.NodeEligible, Attributes: map[string]string{"kernel.name": "linux"},
		Resources: structs.NodeResources{CPUMHz: 4000, Cores: 4, MemoryMB: 4000, DiskMB: 40000},
		Drivers:   map[string]*structs.DriverInfo{"mock": {Detected: true, Healthy: true}},
	}
}

// Run runs the suite; open returns a fresh control plane that knows no node.
func Run(t *testing.T, open func(t *testing.T) Plane) {
	for name, test := range map[string]func(*testing.T, Plane){
		"an unknown node is refused":                        unknownNode,
		"registering twice is registering once":             registersTwice,
		"a placement reaches the node":                      placement,
		"a stop reaches the node with a higher index":       stop,
		"what has not changed is not told again":            onlyChanges,
		"a blocked read ends with its context":              endsWithContext,
		"a report is kept and does not wake a blocked read": reports,
		"what was reported twice counts once":               reportsTwice,
		"an ended allocation stays ended":                   staysEnded,
		"reports of what is unknown are left out":           unknownAllocation,
		"the node can be registered again while it runs":    registersAgain,
		"services are registered once":                      servicesOnce,
		"services end with their allocation":                servicesEnd,
		"services of what the node does not run are none":   servicesOfOthers,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func register(t *testing.T, p Plane) {
	_, err := p.Register(t.Context(), Node())
	require.NoError(t, err)
}

func unknownNode(t *testing.T, p Plane) {
	_, err := p.Heartbeat(t.Context(), Node().ID)
	require.Error(t, err)
	_, err = p.Allocations(t.Context(), Node().ID, 0)
	require.Error(t, err)
	require.Error(t, p.UpdateAllocations(t.Context(), Node().ID, nil))
}

func registersTwice(t *testing.T, p Plane) {
	register(t, p)
	news, err := p.Allocations(t.Context(), Node().ID, 0)
	require.NoError(t, err)
	require.Empty(t, news.Changed)
	register(t, p)
	again, err := p.Allocations(t.Context(), Node().ID, 0)
	require.NoError(t, err)
	require.Equal(t, news.Index, again.Index)
	_, err = p.Heartbeat(t.Context(), Node().ID)
	require.NoError(t, err)
}

// next returns what the node receives once there is something new.
func next(t *testing.T, p Plane, after uint64) ([]*structs.Allocation, uint64) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	news, err := p.Allocations(ctx, Node().ID, after)
	require.NoError(t, err)
	require.Greater(t, news.Index, after)
	require.True(t, news.All || after != 0)
	return news.Changed, news.Index
}

// current returns what the node receives now.
func current(t *testing.T, p Plane) (list []*structs.Allocation, index uint64) {
	return next(t, p, 0)
}

func placement(t *testing.T, p Plane) {
	register(t, p)
	_, index := current(t, p)
	type answer struct {
		*structs.Assignments
		err error
	}
	got := make(chan answer, 1)
	go func() {
		news, err := p.Allocations(t.Context(), Node().ID, index)
		got <- answer{news, err}
	}()
	id := p.Place(t)
	a := <-got
	require.NoError(t, a.err)
	require.Greater(t, a.Index, index)
	require.Len(t, a.Changed, 1)
	require.Equal(t, id, a.Changed[0].ID)
	require.Equal(t, Node().ID, a.Changed[0].NodeID)
	require.Equal(t, structs.DesiredRun, a.Changed[0].DesiredStatus)
	require.Equal(t, structs.ClientPending, a.Changed[0].ClientStatus)
	require.NotNil(t, a.Changed[0].Group(), "the job is there")
	for _, task := range a.Changed[0].Group().Tasks {
		require.NotNil(t, a.Changed[0].Resources.Tasks[task.Name], "every task has its resources")
	}
	require.NotZero(t, a.Changed[0].AllocModifyIndex)
}

func stop(t *testing.T, p Plane) {
	register(t, p)
	id := p.Place(t)
	list, index := current(t, p)
	before := list[0].AllocModifyIndex
	p.Stop(t, id)
	list, _ = next(t, p, index)
	for _, a := range list {
		if a.ID == id {
			require.True(t, a.ServerTerminal())
			require.Greater(t, a.AllocModifyIndex, before)
			return
		}
	}
	t.Fatal("a stopping allocation is delivered until it has ended")
}

func onlyChanges(t *testing.T, p Plane) {
	register(t, p)
	first := p.Place(t)
	list, index := current(t, p)
	require.Len(t, list, 1)
	second := p.Place(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	news, err := p.Allocations(ctx, Node().ID, index)
	require.NoError(t, err)
	ids := map[string]bool{}
	for _, a := range news.Changed {
		ids[a.ID] = true
	}
	require.True(t, ids[second])
	require.Equal(t, news.All, ids[first])
	require.Empty(t, news.Gone)
}

func endsWithContext(t *testing.T, p Plane) {
	register(t, p)
	_, index := current(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	again, err := p.Allocations(ctx, Node().ID, index)
	if err == nil {
		require.Equal(t, &structs.Assignments{Index: index, Standing: again.Standing}, again, "nothing has changed")
	} else {
		require.ErrorIs(t, err, context.Canceled)
	}
}

func report(t *testing.T, p Plane, id string, status structs.ClientStatus) {
	require.NoError(t, p.UpdateAllocations(t.Context(), Node().ID, []*structs.AllocationState{{
		ID: id, ClientStatus: status, TaskStates: map[string]*structs.TaskState{"t": {State: structs.TaskRunning}},
	}}))
}

func reports(t *testing.T, p Plane) {
	register(t, p)
	id := p.Place(t)
	_, index := current(t, p)
	report(t, p, id, structs.ClientRunning)
	require.Equal(t, structs.ClientRunning, p.Status(t, id))
	_, again := current(t, p)
	require.Equal(t, index, again, "a node's own reports do not wake its read")
}

func reportsTwice(t *testing.T, p Plane) {
	register(t, p)
	id := p.Place(t)
	report(t, p, id, structs.ClientComplete)
	_, index := current(t, p)
	report(t, p, id, structs.ClientComplete)
	_, again := current(t, p)
	require.Equal(t, index, again)
	require.Equal(t, structs.ClientComplete, p.Status(t, id))
}

func staysEnded(t *testing.T, p Plane) {
	register(t, p)
	id := p.Place(t)
	report(t, p, id, structs.ClientComplete)
	report(t, p, id, structs.ClientRunning)
	require.Equal(t, structs.ClientComplete, p.Status(t, id))
}

func unknownAllocation(t *testing.T, p Plane) {
	register(t, p)
	report(t, p, "00000000-0000-0000-0000-000000000000", structs.ClientRunning)
	list, _ := current(t, p)
	require.Empty(t, list)
}

func registersAgain(t *testing.T, p Plane) {
	register(t, p)
	id := p.Place(t)
	n := Node()
	n.Drivers["mock"] = &structs.DriverInfo{Detected: true, HealthDescription: "unwell"}
	_, err := p.Register(t.Context(), n)
	require.NoError(t, err)
	list, _ := current(t, p)
	require.Len(t, list, 1)
	require.Equal(t, id, list[0].ID)
	require.Equal(t, structs.DesiredRun, list[0].DesiredStatus, "a driver that is unwell stops nothing that runs")
}

// service is a registration of an allocation on the node.
func service(allocID, name string, tags ...string) *structs.ServiceRegistration {
	owner := structs.TaskServices(allocID, "t")
	return &structs.ServiceRegistration{
		ID: structs.ServiceID(owner, name, "http"), ServiceName: name, Namespace: "default", NodeID: Node().ID, Datacenter: Node().Datacenter,
		JobID: "x", AllocID: allocID, Workload: owner.Workload, Tags: tags, Address: "10.0.0.5", Port: 8080,
	}
}

// registered are the services that the control plane has of the node, without their indexes.
func registered(t *testing.T, p Plane) (list []*structs.ServiceRegistration) {
	found, err := p.RegisteredServices(t.Context(), Node().ID)
	require.NoError(t, err)
	for _, s := range found {
		s = s.Copy()
		s.CreateIndex, s.ModifyIndex = 0, 0
		list = append(list, s)
	}
	return list
}

func servicesOnce(t *testing.T, p Plane) {
	register(t, p)
	id := p.Place(t)
	api, web := service(id, "api", "a"), service(id, "web")
	for range 2 {
		require.NoError(t, p.RegisterServices(t.Context(), Node().ID, []*structs.ServiceRegistration{api, web}))
		require.ElementsMatch(t, []*structs.ServiceRegistration{api, web}, registered(t, p))
	}
	for _, c := range []struct{ namespace, name, want string }{
		{"default", "api", api.ID}, {"default", "", api.ID + web.ID}, {"other", "api", ""}, {"other", "", ""}, {"default", "none", ""},
	} {
		found, err := p.FindServices(t.Context(), c.namespace, c.name)
		require.NoError(t, err)
		ids := ""
		for _, s := range found {
			ids += s.ID
		}
		require.Equal(t, c.want, ids, "%s/%s", c.namespace, c.name)
	}
	changed := service(id, "api", "b")
	require.NoError(t, p.RegisterServices(t.Context(), Node().ID, []*structs.ServiceRegistration{changed}))
	require.ElementsMatch(t, []*structs.ServiceRegistration{changed, web}, registered(t, p))
	for range 2 {
		require.NoError(t, p.DeregisterServices(t.Context(), Node().ID, []string{api.ID, "none"}))
		require.Equal(t, []*structs.ServiceRegistration{web}, registered(t, p))
	}
}

func servicesEnd(t *testing.T, p Plane) {
	register(t, p)
	id := p.Place(t)
	require.NoError(t, p.RegisterServices(t.Context(), Node().ID, []*structs.ServiceRegistration{service(id, "api")}))
	report(t, p, id, structs.ClientRunning)
	require.Len(t, registered(t, p), 1)
	report(t, p, id, structs.ClientFailed)
	require.Empty(t, registered(t, p))
	require.NoError(t, p.RegisterServices(t.Context(), Node().ID, []*structs.ServiceRegistration{service(id, "api")}))
	require.Empty(t, registered(t, p), "what comes late is left out")
}

func servicesOfOthers(t *testing.T, p Plane) {
	require.Error(t, p.RegisterServices(t.Context(), Node().ID, nil), "an unknown node is refused")
	_, err := p.RegisteredServices(t.Context(), Node().ID)
	require.Error(t, err)
	register(t, p)
	id := p.Place(t)
	other := service(id, "api")
	other.NodeID = "another"
	require.NoError(t, p.RegisterServices(t.Context(), Node().ID, []*structs.ServiceRegistration{
		other, service("00000000-0000-0000-0000-000000000000", "api"),
	}))
	require.Empty(t, registered(t, p))
}
