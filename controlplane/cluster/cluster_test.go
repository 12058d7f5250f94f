package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/klauspost/compress/snappy"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/internal/jobpayload"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	nodeID   = "5b9fc6a4-6c66-4fbc-9ba6-0b8a3f7f4a11"
	secretID = "0d1f2b16-3a52-4c8e-8b1e-8f3a4c5d6e7f"
)

// server is a simulated server of Nomad: it keeps a node's allocations, and to the rules that
// real ones were seen to keep.
type server struct {
	address string
	stop    func()

	mu           sync.Mutex
	changed      chan struct{}
	index        uint64
	node         *wireNode
	status       string
	token        string // that the node has to have; empty: its secret ID
	allocs       map[string]*wireAlloc
	reports      []*wireState
	services     map[string]*wireService
	fail         map[string]error          // by method, once
	withheld     string                    // the ID of an allocation that is told of, and not sent
	tokens       map[string]string         // for disks, by allocation
	others       map[string]*wireElsewhere // allocations of other nodes
	nodes        map[string]map[string]any // other nodes
	leaderless   bool
	events       []wireNodeEvent // of the node
	introduction string          // that a node has to have; empty: none
	behind       bool            // answers of allocations of other nodes that may be old are
	calls        map[string]int
}

func startServer(t *testing.T) *server {
	t.Helper()
	s := &server{
		changed: make(chan struct{}), index: 10, allocs: map[string]*wireAlloc{},
		services: map[string]*wireService{}, fail: map[string]error{}, calls: map[string]int{},
	}
	s.address, s.stop = serve(t, &wire.Handler{Call: s.answer})
	return s
}

// serve takes connections of nodes until the test has ended, or before.
func serve(t *testing.T, handler *wire.Handler) (address string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	var sessions sync.Map
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if session, err := wire.Accept(context.Background(), conn, wire.Options{Handler: handler}); err == nil {
				sessions.Store(session, nil)
			}
		}
	})
	var once sync.Once
	stop = func() {
		once.Do(func() {
			l.Close()
			running.Wait()
			sessions.Range(func(k, _ any) bool { k.(*wire.Session).Close(); return true })
		})
	}
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// args are what the requests have of which any has some.
type args struct {
	query
	NodeID, SecretID, Status string
	Node                     *wireNode
	AllocIDs                 []string
	Alloc                    []*wireState
	Services                 []*wireService
	ID, Path, ServiceName    string
	AllocID                  string
	Identities               []*wireIdentity
	NodeEvents               map[string][]wireNodeEvent
}

func (s *server) answer(ctx context.Context, method string, decode func(any) error) (any, error) {
	var a args
	if err := decode(&a); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[method]++
	if err := s.fail[method]; err != nil {
		delete(s.fail, method)
		return nil, err
	}
	if s.leaderless {
		return nil, errors.New("No cluster leader")
	}
	if a.Region != "global" {
		return nil, errors.New("No path to region")
	}
	if method != "Status.Leader" && method != "Node.Register" && method != "Variables.Read" && !s.knows(a.AuthToken) {
		return nil, errors.New("Permission denied")
	}
	switch method {
	case "Status.Leader":
		return nil, nil
	case "Node.Register":
		if a.AuthToken != s.introduction && s.introduction != "" {
			return nil, errors.New("Permission denied")
		}
		s.node = a.Node
		return s.reply(0), nil
	case "Node.UpdateStatus":
		index := uint64(0)
		if s.status != a.Status {
			s.status, index = a.Status, s.next()
		}
		return s.reply(index), nil
	case "Node.GetClientAllocs":
		return s.clientAllocs(ctx, a)
	case "Alloc.GetAllocs":
		var reply struct{ Allocs []*wireAlloc }
		for _, id := range a.AllocIDs {
			if found := s.allocs[id]; found != nil && id != s.withheld {
				reply.Allocs = append(reply.Allocs, found)
			}
		}
		return reply, nil
	case "Alloc.GetAlloc":
		return s.elsewhere(ctx, a)
	case "Node.EmitEvents":
		s.events = append(s.events, a.NodeEvents[nodeID]...)
		return nil, nil
	case "Node.GetNode":
		if a.NodeID == nodeID {
			return map[string]any{"Node": map[string]any{"Events": s.events}}, nil
		}
		return map[string]any{"Node": s.nodes[a.NodeID]}, nil
	case "Node.UpdateAlloc":
		s.reports = append(s.reports, a.Alloc...)
		return nil, nil
	case "ServiceRegistration.Upsert":
		for _, service := range a.Services {
			s.services[service.ID] = service
		}
		return nil, nil
	case "ServiceRegistration.DeleteByID":
		if s.services[a.ID] == nil {
			return nil, errors.New("service registration not found")
		}
		delete(s.services, a.ID)
		return nil, nil
	case "ServiceRegistration.GetService":
		var reply struct{ Services []*wireService }
		for _, service := range s.services {
			if service.ServiceName == a.ServiceName && service.Namespace == a.Namespace {
				reply.Services = append(reply.Services, service)
			}
		}
		return reply, nil
	case "Variables.Read":
		if a.AuthToken != "token of t" || a.Path != "nomad/jobs/job" {
			return nil, errors.New("Permission denied")
		}
		return struct{ Data *wireVariable }{&wireVariable{Path: a.Path, ModifyIndex: 7, Items: map[string]string{"k": "v"}}}, nil
	case "Alloc.SignIdentities":
		i := a.Identities[0]
		if i.IdentityName != "vault" {
			return struct{ Rejections []*wireIdentity }{[]*wireIdentity{{Reason: "identity not found"}}}, nil
		}
		i.JWT = "signed for " + i.WorkloadIdentifier
		return struct{ SignedIdentities []*wireIdentity }{a.Identities}, nil
	}
	return nil, wire.ErrNoMethod
}

// knows reports whether a node is the one that has registered.
func (s *server) knows(token string) bool {
	if s.node == nil {
		return false
	}
	if s.token != "" && token == s.token {
		return true
	}
	return token == s.node.SecretID
}

func (s *server) reply(index uint64) nodeReply {
	r := nodeReply{HeartbeatTTL: time.Minute, Servers: []serverInfo{{s.address}, {"no address"}}, Index: index}
	if s.token != "" {
		r.SignedIdentity = &s.token
	}
	return r
}

// next tells those that wait of a change. It is called under mu.
func (s *server) next() uint64 {
	s.index++
	close(s.changed)
	s.changed = make(chan struct{})
	return s.index
}

type clientAllocs struct {
	Allocs        map[string]uint64
	MigrateTokens map[string]string
	Index         uint64
}

// clientAllocs waits, without mu, for a higher index.
func (s *server) clientAllocs(ctx context.Context, a args) (any, error) {
	if a.SecretID != s.node.SecretID {
		return nil, errors.New("missing node secret ID for client allocations")
	}
	if err := s.await(ctx, a.MinQueryIndex); err != nil {
		return nil, err
	}
	reply := clientAllocs{map[string]uint64{}, s.tokens, s.index}
	for id, alloc := range s.allocs {
		reply.Allocs[id] = alloc.AllocModifyIndex
	}
	return reply, nil
}

// await waits, without mu, for a higher index.
func (s *server) await(ctx context.Context, index uint64) error {
	for s.index <= index {
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// change changes an allocation, a new one if there is none of the ID.
func (s *server) change(id string, change func(a *wireAlloc)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := placed(id)
	if old := s.allocs[id]; old != nil {
		c := *old
		a = &c
	}
	change(a)
	a.AllocModifyIndex = s.next()
	s.allocs[id] = a
}

func (s *server) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.allocs, id)
	s.next()
}

func (s *server) setLeaderless(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaderless = is
}

func (s *server) called(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

// lastReport is what was reported last of an allocation; nil: nothing.
func (s *server) lastReport(id string) (last *wireState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.reports {
		if r.ID == id {
			last = r
		}
	}
	return last
}

// placed is an allocation as servers send it.
func placed(id string) *wireAlloc {
	job := nomad.NewServiceJob("job", "job", "global", 50)
	group := nomad.NewTaskGroup("g", 1)
	group.AddTask(nomad.NewTask("t", "raw_exec").SetConfig("command", "/bin/true"))
	job.AddTaskGroup(group)
	a := &wireAlloc{
		ID: id, Namespace: "default", Name: "job.g[0]", NodeID: nodeID, JobID: "job", TaskGroup: "g", Job: job,
		AllocatedResources: &wireAllocated{Tasks: map[string]*wireTaskResources{"t": {}}},
		DesiredStatus:      "run", ClientStatus: "pending", CreateIndex: 11,
		SignedIdentities: map[string]string{"t": "token of t"},
	}
	a.AllocatedResources.Tasks["t"].Cpu.CpuShares, a.AllocatedResources.Tasks["t"].Memory.MemoryMB = 100, 64
	a.AllocatedResources.Shared.Ports = []wirePort{{Label: "http", Value: 20080, To: -1, HostIP: "192.0.2.1"}}
	return a
}

// allocID is the n-th.
func allocID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func described() *structs.Node {
	return &structs.Node{
		ID: nodeID, Name: "n", Datacenter: "dc1", Region: "global", Status: structs.NodeReady,
		Attributes: map[string]string{"kernel.name": "linux", "nomad.version": "2.0.5", "unique.network.ip-address": "192.0.2.7"},
		Resources:  structs.NodeResources{CPUMHz: 4000, Cores: 2, MemoryMB: 4000, DiskMB: 40000},
		Drivers:    map[string]*structs.DriverInfo{"raw_exec": {Detected: true, Healthy: true}},
	}
}

// join is a control plane that talks with servers.
func join(t *testing.T, servers ...string) *ControlPlane {
	t.Helper()
	return joinWith(t, Config{Servers: servers})
}

func joinWith(t *testing.T, cfg Config) *ControlPlane {
	t.Helper()
	cfg.Region = "global"
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.timing.shuffle == nil {
		cfg.timing.shuffle = func(int, func(i, j int)) {} // the first is asked first
	}
	cfg.Secret = func() (string, error) { return secretID, nil }
	cp, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cp.Close()) })
	return cp
}

func registered(t *testing.T, cp *ControlPlane) {
	t.Helper()
	ttl, err := cp.Register(t.Context(), described())
	require.NoError(t, err)
	require.Equal(t, time.Minute, ttl)
}

func TestANodeIsRegisteredWithWhatSchedulersOfAllVersionsRead(t *testing.T) {
	s := startServer(t)
	registered(t, join(t, s.address))
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Equal(t, "ready", s.status)
	n := s.node
	require.Equal(t, secretID, n.SecretID)
	require.Equal(t, "true", n.Attributes["nomad.service_discovery"])
	require.True(t, n.Drivers["raw_exec"].Healthy)
	require.Equal(t, wireNodeCPU{4000, 2, []uint16{0, 1}}, n.NodeResources.Cpu)
	require.Len(t, n.NodeResources.Processors.Topology.Cores, 2)
	require.Equal(t, uint64(2000), n.NodeResources.Processors.Topology.Cores[1].BaseSpeed)
	require.Equal(t, "host", n.NodeResources.Networks[0].Mode)
	require.Equal(t, wireAddress{Family: "ipv4", Alias: "default", Address: "192.0.2.7"}, n.NodeResources.NodeNetworks[0].Addresses[0])
	require.NotNil(t, n.ReservedResources)
	require.Equal(t, 4000, n.Resources.CPU)
}

func TestANodeThatWouldStopAScheduleIsNotRegistered(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	for want, change := range map[string]func(n *structs.Node){
		"a node without processors cannot be registered":                                     func(n *structs.Node) { n.Resources.CPUMHz, n.Resources.Cores = 0, 0 },
		`client.node_pool: "all" is all pools: a node is in one of them`:                     func(n *structs.Node) { n.Pool = "all" },
		"a node needs an ID, a secret, a name, a datacenter and attributes to be registered": func(n *structs.Node) { n.Datacenter = "" },
	} {
		n := described()
		change(n)
		_, err := cp.Register(t.Context(), n)
		require.EqualError(t, err, want)
	}
	require.Zero(t, s.called("Node.Register"))
}

func TestAllocationsAreToldAsTheyChange(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	registered(t, cp)
	a := allocID(1)
	s.change(a, func(*wireAlloc) {})
	news, err := cp.Allocations(t.Context(), nodeID, 0)
	require.NoError(t, err)
	require.True(t, news.All)
	require.Len(t, news.Changed, 1)
	got := news.Changed[0]
	require.Equal(t, a, got.ID)
	require.Equal(t, "job", *got.Job.Name, "its job is whole")
	require.Equal(t, &structs.TaskResources{CPUMHz: 100, MemoryMB: 64}, got.Resources.Tasks["t"])
	require.Equal(t, []structs.AllocatedPort{{Label: "http", HostIP: "192.0.2.1", Value: 20080}}, got.Resources.Ports)

	yes := true
	for _, step := range []struct {
		change func(*wireAlloc)
		is     func(*structs.Allocation) bool
	}{
		{func(a *wireAlloc) { a.DesiredTransition.Migrate = &yes }, func(a *structs.Allocation) bool { return a.Migrate }},
		{func(a *wireAlloc) { a.DesiredStatus = "stop" }, (*structs.Allocation).ServerTerminal},
	} {
		s.change(a, step.change)
		before := news.Index
		news, err = cp.Allocations(t.Context(), nodeID, before)
		require.NoError(t, err)
		require.False(t, news.All)
		require.Greater(t, news.Index, before)
		require.Len(t, news.Changed, 1)
		require.True(t, step.is(news.Changed[0]))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = cp.Allocations(ctx, nodeID, news.Index)
	require.ErrorIs(t, err, context.DeadlineExceeded, "nothing has changed")
}

func TestWhatServersForgetIsStoppedAndThenGone(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	registered(t, cp)
	runs, ended, kept := allocID(1), allocID(2), allocID(3)
	for _, id := range []string{runs, ended} {
		s.change(id, func(*wireAlloc) {})
	}
	// This one is stored by an earlier agent, and nothing is known of it here.
	stored, err := allocOf(placed(kept), nodeID)
	require.NoError(t, err)
	_, err = cp.Adopt(t.Context(), nil, &structs.NodeKnowledge{Allocations: []structs.KnownAllocation{{Allocation: stored}}})
	require.NoError(t, err)
	news, err := cp.Allocations(t.Context(), nodeID, 0)
	require.NoError(t, err)
	byID := map[string]*structs.Allocation{}
	for _, a := range news.Changed {
		byID[a.ID] = a
	}
	require.Len(t, byID, 3)
	require.Equal(t, structs.DesiredStop, byID[kept].DesiredStatus)

	require.NoError(t, cp.UpdateAllocations(t.Context(), nodeID, []*structs.AllocationState{{ID: ended, ClientStatus: structs.ClientComplete}}))
	s.remove(runs)
	s.remove(ended)
	seen, gone := map[string]bool{}, map[string]bool{}
	take := func() {
		news, err = cp.Allocations(t.Context(), nodeID, news.Index)
		require.NoError(t, err)
		for _, a := range news.Changed {
			require.Equal(t, structs.DesiredStop, a.DesiredStatus)
			seen[a.ID] = true
		}
		for _, id := range news.Gone {
			gone[id] = true
		}
	}
	for !seen[runs] || !gone[ended] {
		take()
	}
	require.False(t, gone[runs], "it has not ended")
	s.mu.Lock()
	s.reports = nil
	s.mu.Unlock()
	require.NoError(t, cp.UpdateAllocations(t.Context(), nodeID, []*structs.AllocationState{
		{ID: runs, ClientStatus: structs.ClientComplete}, {ID: kept, ClientStatus: structs.ClientComplete},
	}))
	for !gone[runs] || !gone[kept] {
		take()
	}
	require.Nil(t, s.lastReport(runs), "servers are told nothing of what they do not know")
	require.Nil(t, s.lastReport(kept))
}

// The end of what servers have forgotten wakes who asks for all: what no server has answered
// is no answer that there is nothing.
func TestAWakeUpIsNotAnAnswer(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	registered(t, cp)
	forgotten, runs := allocID(1), allocID(2)
	s.change(forgotten, func(*wireAlloc) {})
	s.change(runs, func(*wireAlloc) {})
	_, err := cp.Allocations(t.Context(), nodeID, 0)
	require.NoError(t, err)
	s.remove(forgotten)
	_, err = cp.Allocations(t.Context(), nodeID, 0)
	require.NoError(t, err)
	for range 20 {
		cp.wake.Set()
		news, err := cp.Allocations(t.Context(), nodeID, 0)
		require.NoError(t, err)
		require.True(t, news.All)
		i := slices.IndexFunc(news.Changed, func(a *structs.Allocation) bool { return a.ID == runs })
		require.NotEqual(t, -1, i)
		require.Equal(t, structs.DesiredRun, news.Changed[i].DesiredStatus)
	}
}

func TestReports(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	registered(t, cp)
	id := allocID(1)
	s.change(id, func(a *wireAlloc) { a.DeploymentID = allocID(100) })
	_, err := cp.Allocations(t.Context(), nodeID, 0)
	require.NoError(t, err)
	yes := true
	state := &structs.TaskState{State: structs.TaskPending}
	state.Enter(structs.TaskRunning, time.Now())
	state.Append(structs.NewTaskEvent(structs.EventStarted))
	reported := &structs.AllocationState{
		ID: id, ClientStatus: structs.ClientRunning, TaskStates: map[string]*structs.TaskState{"t": state},
		DeploymentStatus: &structs.DeploymentStatus{Healthy: &yes, Timestamp: time.Now(), DeploymentID: allocID(100)},
	}
	require.NoError(t, cp.UpdateAllocations(t.Context(), nodeID, []*structs.AllocationState{reported}))
	r := s.lastReport(id)
	require.Equal(t, "running", r.ClientStatus)
	require.Equal(t, "Task started by client", r.TaskStates["t"].Events[0].DisplayMessage)
	require.True(t, state.StartedAt.Equal(r.TaskStates["t"].StartedAt))
	require.True(t, *r.DeploymentStatus.Healthy)
	require.Equal(t, structs.ClientRunning, cp.Allocation(id).ClientStatus)

	s.change(id, func(a *wireAlloc) { a.DeploymentID = allocID(101) })
	_, err = cp.Allocations(t.Context(), nodeID, 0)
	require.NoError(t, err)
	require.NoError(t, cp.UpdateAllocations(t.Context(), nodeID, []*structs.AllocationState{reported}))
	require.Nil(t, s.lastReport(id).DeploymentStatus, "health of another deployment counts in none")

	// A server that had missed the node is told again.
	s.mu.Lock()
	s.status, s.reports = "disconnected", nil
	s.mu.Unlock()
	_, err = cp.Heartbeat(t.Context(), nodeID)
	require.NoError(t, err)
	require.Equal(t, "running", s.lastReport(id).ClientStatus)
}

func TestNothingIsReportedBeforeTheServersWereAsked(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	registered(t, cp)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := cp.UpdateAllocations(ctx, nodeID, []*structs.AllocationState{{ID: allocID(1), ClientStatus: structs.ClientRunning}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestTheJobOfADispatchHasItsPayloadAsItWasGiven(t *testing.T) {
	for _, size := range []int{0, 5, jobpayload.Max} {
		w := placed(allocID(1))
		if size > 0 {
			w.Job.Payload = snappy.Encode(nil, make([]byte, size))
		}
		a, err := allocOf(w, nodeID)
		require.NoError(t, err)
		require.Len(t, a.Job.Payload, size)
	}
}

func TestAnAllocationThatNoServerSendsIsRefused(t *testing.T) {
	name := func(s string) *string { return &s }
	for what, change := range map[string]func(a *wireAlloc){
		"an ID that is a path":         func(a *wireAlloc) { a.ID = "../../../etc" },
		"another node's":               func(a *wireAlloc) { a.NodeID = allocID(9) },
		"no job":                       func(a *wireAlloc) { a.Job = nil },
		"another job's":                func(a *wireAlloc) { a.Job.ID = name("other") },
		"no group of it":               func(a *wireAlloc) { a.TaskGroup = "other" },
		"an empty group":               func(a *wireAlloc) { a.Job.TaskGroups = append(a.Job.TaskGroups, nil) },
		"an empty task":                func(a *wireAlloc) { a.Job.TaskGroups[0].Tasks = append(a.Job.TaskGroups[0].Tasks, nil) },
		"a task that is a path":        func(a *wireAlloc) { a.Job.TaskGroups[0].Tasks[0].Name = "../x" },
		"a task that is its directory": func(a *wireAlloc) { a.Job.TaskGroups[0].Tasks[0].Name = ".." },
		"no resources":                 func(a *wireAlloc) { a.AllocatedResources = nil },
		"none of its task":             func(a *wireAlloc) { a.AllocatedResources.Tasks = nil },
		"less than no memory":          func(a *wireAlloc) { a.AllocatedResources.Tasks["t"].Memory.MemoryMB = -1 },
		"more memory than there is":    func(a *wireAlloc) { a.AllocatedResources.Tasks["t"].Memory.MemoryMB = maxMegabytes + 1 },
		"an empty device":              func(a *wireAlloc) { a.AllocatedResources.Tasks["t"].Devices = []*structs.AllocatedDevice{nil} },
		"a port that is none":          func(a *wireAlloc) { a.AllocatedResources.Shared.Ports[0].Value = 65536 },
		"nothing that is wanted":       func(a *wireAlloc) { a.DesiredStatus = "dance" },
		"a name that never ends":       func(a *wireAlloc) { a.Namespace = string(make([]byte, maxName+1)) },
		"a predecessor that is a path": func(a *wireAlloc) { a.PreviousAllocation = "../x" },
		"one that it preempted, too":   func(a *wireAlloc) { a.PreemptedAllocations = []string{"/"} },
		"an empty network":             func(a *wireAlloc) { a.Job.TaskGroups[0].Networks = []*nomad.NetworkResource{nil} },
		"an empty identity":            func(a *wireAlloc) { a.Job.TaskGroups[0].Tasks[0].Identities = []*nomad.WorkloadIdentity{nil} },
		"an empty volume":              func(a *wireAlloc) { a.Job.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": nil} },
		"a volume of CSI": func(a *wireAlloc) {
			a.Job.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Type: "csi"}}
		},
		"a plugin of CSI":                 func(a *wireAlloc) { a.Job.TaskGroups[0].Tasks[0].CSIPluginConfig = &nomad.TaskCSIPluginConfig{} },
		"a schedule":                      func(a *wireAlloc) { a.Job.TaskGroups[0].Tasks[0].Schedule = &nomad.TaskSchedule{} },
		"secrets of a provider":           func(a *wireAlloc) { a.Job.TaskGroups[0].Tasks[0].Secrets = []*nomad.Secret{{}} },
		"Vault":                           func(a *wireAlloc) { a.Job.TaskGroups[0].Tasks[0].Vault = &nomad.Vault{} },
		"Consul":                          func(a *wireAlloc) { a.Job.TaskGroups[0].Tasks[0].Consul = &nomad.Consul{} },
		"a payload that is not packed":    func(a *wireAlloc) { a.Job.Payload = []byte{0xff} },
		"a payload that is too big":       func(a *wireAlloc) { a.Job.Payload = snappy.Encode(nil, make([]byte, jobpayload.Max+1)) },
		"a payload that is cut":           func(a *wireAlloc) { p := snappy.Encode(nil, []byte("words")); a.Job.Payload = p[:len(p)-1] },
		"a group without a name":          func(a *wireAlloc) { a.Job.TaskGroups[0].Name = nil },
		"two tasks of one name":           func(a *wireAlloc) { g := a.Job.TaskGroups[0]; g.Tasks = append(g.Tasks, g.Tasks[0]) },
		"no tasks at all":                 func(a *wireAlloc) { a.Job.TaskGroups[0].Tasks = nil },
		"a disk of less than no bytes":    func(a *wireAlloc) { a.AllocatedResources.Shared.DiskMB = -1 },
		"a port that it is not mapped to": func(a *wireAlloc) { a.AllocatedResources.Shared.Ports[0].To = -2 },
	} {
		t.Run(what, func(t *testing.T) {
			a := placed(allocID(1))
			change(a)
			_, err := allocOf(a, nodeID)
			require.Error(t, err)
		})
	}
	// The node goes on with the others, and servers learn why.
	s := startServer(t)
	cp := join(t, s.address)
	registered(t, cp)
	s.change(allocID(1), func(a *wireAlloc) { a.TaskGroup = "other" })
	s.change(allocID(2), func(*wireAlloc) {})
	news, err := cp.Allocations(t.Context(), nodeID, 0)
	require.NoError(t, err)
	require.Len(t, news.Changed, 1)
	require.Equal(t, `refused by the node: its job has no group "other"`, s.lastReport(allocID(1)).ClientDescription)
	require.Equal(t, "failed", s.lastReport(allocID(1)).ClientStatus)
}

func TestAnotherServerTakesOver(t *testing.T) {
	one, two := startServer(t), startServer(t)
	cp := join(t, one.address, two.address)
	registered(t, cp)
	require.Equal(t, one.address, cp.Connected())
	one.stop()
	// The other one has heard of the node from the first.
	one.mu.Lock()
	known := one.node
	one.mu.Unlock()
	two.mu.Lock()
	two.node = known
	two.mu.Unlock()
	_, err := cp.Heartbeat(t.Context(), nodeID)
	require.NoError(t, err)
	require.Equal(t, two.address, cp.Connected())

	// One that has no leader is left as well.
	three := startServer(t)
	cp = join(t, two.address, three.address)
	two.mu.Lock()
	two.fail["Node.Register"] = errors.New("No cluster leader")
	two.mu.Unlock()
	registered(t, cp)
	require.Equal(t, three.address, cp.Connected())
}

func TestAServerThatSaysNothingIsLeft(t *testing.T) {
	one, two := startServer(t), startServer(t)
	cp := joinWith(t, Config{Servers: []string{one.address, two.address}, timing: timing{patience: time.Second}})
	require.Eventually(t, func() bool { return cp.Connected() != "" }, time.Minute, time.Millisecond)
	if cp.Connected() == two.address { // on a busy machine the first was late
		one, two = two, one
	}
	one.mu.Lock() // it answers nothing any more
	defer one.mu.Unlock()
	registered(t, cp)
	require.Equal(t, two.address, cp.Connected())
}

func TestARefusedAllocationIsAskedForOnce(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	registered(t, cp)
	s.change(allocID(1), func(a *wireAlloc) { a.TaskGroup = "other" })
	news, err := cp.Allocations(t.Context(), nodeID, 0)
	require.NoError(t, err)
	require.Empty(t, news.Changed)
	s.change(allocID(2), func(*wireAlloc) {})
	news, err = cp.Allocations(t.Context(), nodeID, news.Index)
	require.NoError(t, err)
	require.Len(t, news.Changed, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := 0
	for _, r := range s.reports {
		if r.ID == allocID(1) {
			failed++
		}
	}
	require.Equal(t, 1, failed)
}

// Another version of what runs that cannot be run leaves it as it is: a failure would have it
// replaced while it runs. That it is to be stopped is taken.
func TestARefusedVersionOfWhatRunsIsNoFailure(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	registered(t, cp)
	s.change(allocID(1), func(*wireAlloc) {})
	news, err := cp.Allocations(t.Context(), nodeID, 0)
	require.NoError(t, err)
	s.change(allocID(1), func(a *wireAlloc) { a.AllocatedResources = nil })
	s.change(allocID(2), func(*wireAlloc) {})
	for seen := false; !seen; seen = news.Changed[0].ID == allocID(2) {
		news, err = cp.Allocations(t.Context(), nodeID, news.Index)
		require.NoError(t, err)
		require.Len(t, news.Changed, 1)
	}
	require.Nil(t, s.lastReport(allocID(1)))
	require.Equal(t, structs.DesiredRun, cp.Allocation(allocID(1)).DesiredStatus)
	require.NotNil(t, cp.Allocation(allocID(1)).Resources.Tasks["t"], "it is the one that runs")
	s.change(allocID(1), func(a *wireAlloc) { a.DesiredStatus = "stop" })
	news, err = cp.Allocations(t.Context(), nodeID, news.Index)
	require.NoError(t, err)
	require.Len(t, news.Changed, 1)
	require.Equal(t, structs.DesiredStop, news.Changed[0].DesiredStatus)
	require.NotNil(t, news.Changed[0].Resources.Tasks["t"])
	require.Nil(t, s.lastReport(allocID(1)))
}

// What a server tells of and does not send is asked for again, and with it what it did send.
func TestNoChangeIsLostInAPartialAnswer(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	registered(t, cp)
	last := perFetch + 1 // a second question
	for n := range last {
		s.change(allocID(n+1), func(*wireAlloc) {})
	}
	news, err := cp.Allocations(t.Context(), nodeID, 0)
	require.NoError(t, err)
	require.Len(t, news.Changed, last)
	withhold := func(id string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.withheld = id
	}
	withhold(allocID(last))
	s.mu.Lock() // so that all of them are one change
	for n := range last {
		a := *s.allocs[allocID(n+1)]
		a.DesiredStatus, a.AllocModifyIndex = "stop", s.index+1
		s.allocs[a.ID] = &a
	}
	s.next()
	s.mu.Unlock()
	_, err = cp.Allocations(t.Context(), nodeID, news.Index)
	require.ErrorContains(t, err, "the servers name allocation "+allocID(last))
	withhold("")
	news, err = cp.Allocations(t.Context(), nodeID, news.Index)
	require.NoError(t, err)
	require.Len(t, news.Changed, last)
}

func TestCallsWaitForAServerAndEndWithTheirContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	cp := join(t, l.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = cp.Register(ctx, described())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = cp.FindServices(t.Context(), "default", "web")
	require.ErrorIs(t, err, errdefs.Unavailable, "what is asked every second does not wait")
}

func TestTheTokenThatServersGiveIsKept(t *testing.T) {
	s := startServer(t)
	s.mu.Lock()
	s.token = "first"
	s.mu.Unlock()
	file := filepath.Join(t.TempDir(), "token")
	cp := joinWith(t, Config{Servers: []string{s.address}, TokenFile: file})
	registered(t, cp)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	again := joinWith(t, Config{Servers: []string{s.address}, TokenFile: file})
	require.Equal(t, "first", again.token.get())

	// A server that has let go of the node does not take its token: it begins anew.
	s.mu.Lock()
	s.fail["Node.Register"] = errors.New("node not found")
	s.mu.Unlock()
	registered(t, again)
	require.Equal(t, 3, s.called("Node.Register"))
}

func TestServices(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	registered(t, cp)
	id := allocID(1)
	s.change(id, func(a *wireAlloc) {
		a.Namespace = "apps"
		a.Job.TaskGroups[0].Services = []*nomad.Service{{Name: "web", PortLabel: "http", Provider: "nomad"}}
	})
	_, err := cp.Allocations(t.Context(), nodeID, 0)
	require.NoError(t, err)
	service := &structs.ServiceRegistration{
		ID: structs.ServiceID(structs.GroupServices(id, "g"), "web", "http"), ServiceName: "web", Namespace: "apps", NodeID: nodeID, AllocID: id,
		Tags: []string{"a"}, Address: "192.0.2.7", Port: 20080,
	}
	require.NoError(t, cp.RegisterServices(t.Context(), nodeID, []*structs.ServiceRegistration{service}))
	found, err := cp.FindServices(t.Context(), "apps", "web")
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, 20080, found[0].Port)
	for range 2 { // one that is not there is left out
		require.NoError(t, cp.DeregisterServices(t.Context(), nodeID, []string{service.ID}))
	}
	found, err = cp.FindServices(t.Context(), "apps", "web")
	require.NoError(t, err)
	require.Empty(t, found)
	require.Equal(t, "apps", cp.namespaceOf(service.ID))

	// After a restart, what the allocations may have registered is known.
	stored, err := allocOf(placed(id), nodeID)
	require.NoError(t, err)
	stored.Job.TaskGroups[0].Services = []*nomad.Service{{Name: "web", PortLabel: "http"}}
	later := join(t, s.address)
	_, err = later.Adopt(t.Context(), nil, &structs.NodeKnowledge{Allocations: []structs.KnownAllocation{{Allocation: stored}}})
	require.NoError(t, err)
	left, err := later.RegisteredServices(t.Context(), nodeID)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, service.ID, left[0].ID)
}

func TestTasksReadAndAreSignedForAsThemselves(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	registered(t, cp)
	s.change(allocID(1), func(*wireAlloc) {})
	_, err := cp.Allocations(t.Context(), nodeID, 0)
	require.NoError(t, err)
	by := structs.TaskIdentity{AllocID: allocID(1), Task: "t"}
	v, err := cp.TaskVariable(t.Context(), by, "", "nomad/jobs/job")
	require.NoError(t, err)
	require.Equal(t, nomad.VariableItems{"k": "v"}, v.Items)
	index, err := cp.TaskVariableIndex(t.Context(), by, "default", "nomad/jobs/job")
	require.NoError(t, err)
	require.Equal(t, uint64(7), index)
	_, err = cp.TaskVariable(t.Context(), by, "", "nomad/jobs/other")
	require.True(t, wire.Says(err, "Permission denied"))
	token, err := cp.SignIdentity(t.Context(), by, "default")
	require.NoError(t, err)
	require.Equal(t, "token of t", token.JWT)
	token, err = cp.SignIdentity(t.Context(), by, "vault")
	require.NoError(t, err)
	require.Equal(t, "signed for t", token.JWT)
	_, err = cp.SignIdentity(t.Context(), by, "other")
	require.EqualError(t, err, `identity "other" of task "t": identity not found`)
	_, err = cp.SignIdentity(t.Context(), structs.TaskIdentity{AllocID: allocID(2), Task: "t"}, "default")
	require.ErrorIs(t, err, errdefs.NotFound)
}

func TestAddressesOfServers(t *testing.T) {
	got, err := addresses([]string{"a", "b:1", "::1", "[::2]:5"})
	require.NoError(t, err)
	require.Equal(t, []string{"a:4647", "b:1", "[::1]:4647", "[::2]:5"}, got)
	for _, bad := range []string{"", "a:0", "a:70000", "a b:1", ":1"} {
		_, err := addresses([]string{bad})
		require.Error(t, err, bad)
	}
	s := &servers{configured: []string{"a:1"}}
	var many []string
	for n := range 2 * maxServers {
		many = append(many, fmt.Sprintf("b:%d", n+1))
	}
	s.learn(append(many, "no address", ""))
	require.Len(t, s.list(), maxServers+1)
	s.learn(nil)
	require.Len(t, s.list(), maxServers+1, "nothing was told")
}

// FuzzAllocation reads what a hostile server may send for an allocation: nothing panics, and
// what is taken can be run.
func FuzzAllocation(f *testing.F) {
	raw, err := wire.Marshal(placed(allocID(1)))
	require.NoError(f, err)
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var w wireAlloc
		if wire.Unmarshal(raw, &w) != nil {
			return
		}
		a, err := allocOf(&w, nodeID)
		if err != nil {
			return
		}
		require.NotNil(t, a.Group())
		for _, task := range a.Group().Tasks {
			require.True(t, isFileName(task.Name))
			require.NotNil(t, a.Resources.Tasks[task.Name])
		}
		_ = maps.Clone(a.TaskStates)
		_ = stateOf(nodeID, "", &structs.AllocationState{ID: a.ID, TaskStates: a.TaskStates})
	})
}
