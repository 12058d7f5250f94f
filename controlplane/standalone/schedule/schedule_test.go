package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/leaktest"
	"github.com/wasmnode/wasmnode/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.WithTimeout(m)) }

// epoch is the time of all tests.
var epoch = time.Unix(1_800_000_000, 0)

func testNode(id string) *structs.Node {
	return &structs.Node{
		ID: id, Name: "name-" + id, Datacenter: "dc1", Region: "global", Pool: "default", Class: "big",
		Status: structs.NodeReady, Eligibility: structs.NodeEligible,
		Attributes: map[string]string{"kernel.name": "linux", "cpu.arch": "amd64", "ver": "1.4.2", "features": "a,b, c", "n": "9",
			"unique.network.ip-address": "10.0.0.1"},
		Meta:      map[string]string{"rack": "r1"},
		Resources: structs.NodeResources{CPUMHz: 1000, Cores: 4, MemoryMB: 1000, DiskMB: 1000},
		Drivers:   map[string]*structs.DriverInfo{"mock": {Detected: true, Healthy: true}},
	}
}

// testJob is a job of one group, changed as the caller likes before it is made whole.
func testJob(kind string, change ...func(*nomad.Job)) *nomad.Job {
	j := &nomad.Job{
		ID: new("job"), Type: &kind, JobModifyIndex: new(uint64(1)),
		TaskGroups: []*nomad.TaskGroup{{
			Name:          new("g"),
			EphemeralDisk: &nomad.EphemeralDisk{SizeMB: new(10)},
			Tasks:         []*nomad.Task{{Name: "t", Driver: "mock", Resources: &nomad.Resources{CPU: new(100), MemoryMB: new(100)}}},
		}},
	}
	for _, c := range change {
		c(j)
	}
	j.Canonicalize()
	return j
}

func count1(n int) func(*nomad.Job) {
	return func(j *nomad.Job) { j.TaskGroups[0].Count = &n }
}

func atVersion(n uint64) func(*nomad.Job) {
	return func(j *nomad.Job) { j.JobModifyIndex = &n }
}

func driver(name string) func(*nomad.Job) {
	return func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Driver = name }
}

func constraint(l, op, r string) func(*nomad.Job) {
	return func(j *nomad.Job) {
		j.Constraints = append(j.Constraints, &nomad.Constraint{LTarget: l, Operand: op, RTarget: r})
	}
}

// cluster applies decisions, as the control plane does.
type cluster struct {
	t      require.TestingT
	nodes  []*structs.Node
	allocs map[string]*Alloc
	index  uint64
	ids    int
	now    time.Time
	// preempt has every job preempt what it may.
	preempt bool
	// deployments are the jobs' last, by job ID.
	deployments map[string]*structs.Deployment
}

func newCluster(t require.TestingT, nodes ...*structs.Node) *cluster {
	return &cluster{t: t, nodes: nodes, allocs: map[string]*Alloc{}, index: 100, now: epoch, deployments: map[string]*structs.Deployment{}}
}

func (c *cluster) input(j *nomad.Job, stopped bool) Input {
	in := Input{Job: j, Stopped: stopped, Nodes: c.nodes, Now: c.now, Preempt: c.preempt, NewID: func() string {
		c.ids++
		return fmt.Sprintf("alloc-%04d", c.ids)
	}}
	if d := c.deployments[*j.ID]; d != nil && d.JobSpecModifyIndex == *j.JobModifyIndex && !stopped {
		in.Deployment = d
	}
	for _, a := range c.sorted() {
		if a.JobID == *j.ID {
			in.Allocs = append(in.Allocs, a)
		} else {
			in.Others = append(in.Others, a.Allocation)
		}
	}
	return in
}

// withTotals is an input with as much as there can be in totals.
func (in Input) withTotals() Input {
	in.Taken = map[string]*Taken{}
	for _, n := range in.Nodes {
		if n.Status != structs.NodeDown {
			in.Taken[n.ID] = NewTaken(nil)
		}
	}
	inTotal := func(a *structs.Allocation) bool { return in.Taken[a.NodeID] != nil && InTotal(a) }
	all := slices.Clone(in.Others)
	for _, a := range in.Allocs {
		all = append(all, a.Allocation)
	}
	for _, a := range all {
		if inTotal(a) {
			in.Taken[a.NodeID].Add(a)
		}
	}
	others := in.Others
	in.Others = slices.DeleteFunc(slices.Clone(others), inTotal)
	in.Rest = func(nodeID string) (rest []*structs.Allocation) {
		for _, a := range others {
			if a.NodeID == nodeID && inTotal(a) {
				rest = append(rest, a)
			}
		}
		return rest
	}
	return in
}

func (c *cluster) sorted() (list []*Alloc) {
	for _, a := range c.allocs {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b *Alloc) int { return int(int64(a.CreateIndex) - int64(b.CreateIndex)) })
	return list
}

func (c *cluster) schedule(j *nomad.Job, stopped bool) *Result {
	res := Schedule(c.input(j, stopped).withTotals())
	if res.Deployment != nil {
		c.deployments[*j.ID] = res.Deployment
	}
	if res.Completed {
		c.deployments[*j.ID] = c.deployments[*j.ID].Copy()
		c.deployments[*j.ID].Status = nomad.DeploymentStatusSuccessful
	}
	for _, s := range res.Stop {
		a := c.change(s.ID)
		a.DesiredStatus, a.DesiredDescription = structs.DesiredStop, s.Description
		if s.Lost {
			a.ClientStatus = structs.ClientLost
		}
	}
	for victim, by := range res.Preempted {
		a := c.change(victim)
		a.DesiredStatus, a.PreemptedByAllocation = structs.DesiredEvict, by
	}
	for old, successor := range res.Replaced {
		c.change(old).NextAllocation = successor
	}
	for _, u := range res.Update {
		c.allocs[u.ID] = &Alloc{Allocation: u}
	}
	for _, a := range res.Place {
		c.index++
		a.CreateIndex, a.CreateTime = c.index, c.now.UnixNano()
		c.allocs[a.ID] = a
	}
	return res
}

func (c *cluster) run(j *nomad.Job) *Result { return c.schedule(j, false) }

func (c *cluster) change(id string) *Alloc {
	a := c.allocs[id]
	require.NotNil(c.t, a, id)
	a = &Alloc{Allocation: a.Copy()}
	c.allocs[id] = a
	return a
}

// end reports an allocation's end now.
func (c *cluster) end(id string, status structs.ClientStatus) {
	a := c.change(id)
	a.ClientStatus, a.ModifyTime = status, c.now.UnixNano()
}

func (c *cluster) wanted() (names []string) {
	for _, a := range c.sorted() {
		if !a.Terminal() {
			names = append(names, a.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (c *cluster) only() *Alloc {
	list := c.sorted()
	require.Len(c.t, list, 1)
	return list[0]
}

func TestCountIsPlacedAndNamedFromZero(t *testing.T) {
	for _, kind := range []string{"service", "batch"} {
		c := newCluster(t, testNode("n1"))
		res := c.run(testJob(kind, count1(3)))
		require.Len(t, res.Place, 3)
		require.Empty(t, res.Failed)
		require.Equal(t, []string{"job.g[0]", "job.g[1]", "job.g[2]"}, c.wanted())
		require.Equal(t, 3, int(res.Desired["g"].Place))
	}
}

func TestANewCountStopsTheHighestAndFillsTheLowest(t *testing.T) {
	c := newCluster(t, testNode("n1"))
	c.run(testJob("service", count1(4)))
	res := c.run(testJob("service", count1(2), atVersion(2)))
	require.Len(t, res.Stop, 2)
	require.Len(t, res.Update, 2, "count alone changes in place")
	require.Equal(t, []string{"job.g[0]", "job.g[1]"}, c.wanted())
	res = c.run(testJob("service", count1(3), atVersion(3)))
	require.Len(t, res.Place, 1)
	require.Equal(t, []string{"job.g[0]", "job.g[1]", "job.g[2]"}, c.wanted())
	require.NotEmpty(t, res.Place[0].PreviousAllocation, "it waits for the one of its name that still stops")
}

func TestNothingChangesForAnUnchangedJob(t *testing.T) {
	for _, kind := range []string{"service", "batch", "system", "sysbatch"} {
		c := newCluster(t, testNode("n1"))
		j := testJob(kind)
		require.True(t, c.run(j).Changes())
		require.False(t, c.run(j).Changes(), kind)
	}
}

func TestWhatRunningTasksCannotTakeIsReplacedAndTheRestChangedInPlace(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*nomad.Job)
		inPlace bool
	}{
		"config":   {func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Config = map[string]any{"a": "b"} }, false},
		"env":      {func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{"a": "b"} }, false},
		"memory":   {func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB = new(50) }, false},
		"job meta": {func(j *nomad.Job) { j.Meta = map[string]string{"a": "b"} }, false},
		"another task": {func(j *nomad.Job) {
			j.TaskGroups[0].Tasks = append(j.TaskGroups[0].Tasks, &nomad.Task{Name: "u", Driver: "mock"})
		}, false},
		"priority":        {func(j *nomad.Job) { j.Priority = new(70) }, true},
		"restart policy":  {func(j *nomad.Job) { j.TaskGroups[0].RestartPolicy = &nomad.RestartPolicy{Attempts: new(7)} }, true},
		"kill timeout":    {func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].KillTimeout = new(time.Minute) }, true},
		"met constraint":  {constraint("${attr.kernel.name}", "=", "linux"), true},
		"update strategy": {func(j *nomad.Job) { j.Update = &nomad.UpdateStrategy{MaxParallel: new(3)} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, testNode("n1"))
			old := c.run(testJob("service")).Place[0]
			res := c.run(testJob("service", tt.change, atVersion(2)))
			if tt.inPlace {
				require.Len(t, res.Update, 1)
				require.Empty(t, res.Place)
				require.Equal(t, old.ID, res.Update[0].ID)
				require.EqualValues(t, 2, *res.Update[0].Job.JobModifyIndex)
				return
			}
			require.Empty(t, res.Update)
			require.Equal(t, []Stop{{ID: old.ID, Description: descUpdating}}, res.Stop)
			require.Len(t, res.Place, 1)
			require.Equal(t, old.ID, res.Place[0].PreviousAllocation)
			require.Equal(t, res.Place[0].ID, c.allocs[old.ID].NextAllocation)
		})
	}
}

func TestAnUpdateThatCannotBePlacedLeavesTheOldOneRunning(t *testing.T) {
	c := newCluster(t, testNode("n1"))
	old := c.run(testJob("service")).Place[0]
	res := c.run(testJob("service", atVersion(2), driver("absent")))
	require.Empty(t, res.Stop)
	require.Equal(t, 1, res.Queued["g"])
	require.False(t, c.allocs[old.ID].Terminal())
}

func TestAStoppedJobStopsAllAndAMissingGroupStops(t *testing.T) {
	c := newCluster(t, testNode("n1"))
	c.run(testJob("service", count1(2)))
	c.run(testJob("service", atVersion(2), func(j *nomad.Job) { j.TaskGroups[0].Name = new("other") }))
	require.Equal(t, []string{"job.other[0]"}, c.wanted())
	c.schedule(testJob("service", atVersion(3)), true)
	require.Empty(t, c.wanted())
}

func TestWhyNothingIsPlaced(t *testing.T) {
	for name, tt := range map[string]struct {
		node                func(*structs.Node)
		job                 func(*nomad.Job)
		filtered, exhausted string
		evaluated           int
	}{
		"missing driver":    {job: driver("absent"), filtered: "missing drivers", evaluated: 1},
		"undetected driver": {node: func(n *structs.Node) { n.Drivers["mock"].Detected = false }, filtered: "missing drivers", evaluated: 1},
		"driver that may yet come": {
			node: func(n *structs.Node) { n.LoadingPlugins = []string{"absent.wasm", "b.wasm"} }, job: driver("absent"),
			filtered: `driver "absent" may yet come: plugins are still loading: absent.wasm, b.wasm`, evaluated: 1,
		},
		"driver that may come of many": {
			node: func(n *structs.Node) { n.LoadingPlugins = strings.Fields("1 2 3 4 5 6 7 8 9 10") }, job: driver("absent"),
			filtered: `driver "absent" may yet come: plugins are still loading: 1, 2, 3, 4, 5, 6, 7, 8 and 2 more`, evaluated: 1,
		},
		"unhealthy driver": {node: func(n *structs.Node) {
			n.Drivers["mock"] = &structs.DriverInfo{Detected: true, HealthDescription: "needs grant fs"}
		}, filtered: `driver "mock" is unhealthy: needs grant fs`, evaluated: 1},
		"constraint":      {job: constraint("${attr.kernel.name}", "=", "plan9"), filtered: "${attr.kernel.name} = plan9", evaluated: 1},
		"cpu":             {job: func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.CPU = new(1001) }, exhausted: "cpu", evaluated: 1},
		"memory":          {job: func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB = new(1001) }, exhausted: "memory", evaluated: 1},
		"reserved memory": {node: func(n *structs.Node) { n.Reserved.MemoryMB = 901 }, exhausted: "memory", evaluated: 1},
		"disk":            {job: func(j *nomad.Job) { j.TaskGroups[0].EphemeralDisk.SizeMB = new(1001) }, exhausted: "disk", evaluated: 1},
		"cores":           {job: func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{Cores: new(5)} }, exhausted: "cores", evaluated: 1},
		"volume":          {job: func(j *nomad.Job) { j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {}} }, filtered: "missing compatible host volumes", evaluated: 1},
		"volume that is read-only": {
			node: func(n *structs.Node) { n.HostVolumes = []structs.HostVolume{{Name: "s", ReadOnly: true}} },
			job: func(j *nomad.Job) {
				j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Source: "s"}}
			}, filtered: "missing compatible host volumes", evaluated: 1,
		},
		"volume that is sticky": {
			node: func(n *structs.Node) { n.HostVolumes = []structs.HostVolume{{Name: "s"}} },
			job: func(j *nomad.Job) {
				j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Source: "s", Sticky: true}}
			}, filtered: "missing compatible host volumes", evaluated: 1,
		},
		"device": {job: func(j *nomad.Job) {
			j.TaskGroups[0].Tasks[0].Resources.Devices = []*nomad.RequestedDevice{{Name: "gpu"}}
		}, filtered: "missing devices", evaluated: 1},
		"network mode": {job: func(j *nomad.Job) { j.TaskGroups[0].Networks = []*nomad.NetworkResource{{Mode: "bridge"}} }, filtered: "missing network", evaluated: 1},
		"network mode that lacks something": {
			node: func(n *structs.Node) { n.NetworkModes = map[string]string{"bridge": "install plugins", "none": ""} },
			job:  func(j *nomad.Job) { j.TaskGroups[0].Networks = []*nomad.NetworkResource{{Mode: "bridge"}} }, filtered: "missing network: install plugins", evaluated: 1,
		},
		"other datacenter":  {job: func(j *nomad.Job) { j.Datacenters = []string{"dc2", "x*"} }},
		"other pool":        {job: func(j *nomad.Job) { j.NodePool = new("gpu") }},
		"ineligible node":   {node: func(n *structs.Node) { n.Eligibility = structs.NodeIneligible }},
		"initializing node": {node: func(n *structs.Node) { n.Status = structs.NodeInitializing }},
		"two static ports":  {job: staticPorts(8080, 8080), exhausted: "network: reserved port collision p1=8080", evaluated: 1},
	} {
		for _, kind := range []string{"service", "system"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				n := testNode("n1")
				if tt.node != nil {
					tt.node(n)
				}
				c := newCluster(t, n)
				var changes []func(*nomad.Job)
				if tt.job != nil {
					changes = append(changes, tt.job)
				}
				res := c.run(testJob(kind, changes...))
				require.Empty(t, res.Place)
				m := res.Failed["g"]
				require.NotNil(t, m)
				require.Equal(t, kind == "service" || m.NodesExhausted > 0, res.Waits())
				require.Equal(t, tt.evaluated, m.NodesEvaluated)
				if tt.filtered != "" {
					require.Equal(t, 1, m.NodesFiltered)
					require.Equal(t, 1, m.ConstraintFiltered[tt.filtered], "%v", m.ConstraintFiltered)
				}
				if tt.exhausted != "" {
					require.Equal(t, 1, m.NodesExhausted)
					require.Equal(t, map[string]int{tt.exhausted: 1}, m.DimensionExhausted)
				}
			})
		}
	}
}

func TestANetworkIsPlacedWhereItsModeIs(t *testing.T) {
	for _, mode := range []string{"", "host", "none", "bridge", "cni/lan"} {
		n := testNode("n1")
		n.NetworkModes = map[string]string{"none": "", "bridge": "", "cni/lan": "", "cni/far": "lacks"}
		c := newCluster(t, n)
		res := c.run(testJob("service", func(j *nomad.Job) { j.TaskGroups[0].Networks = []*nomad.NetworkResource{{Mode: mode}} }))
		require.Len(t, res.Place, 1, mode)
	}
}

func staticPorts(values ...int) func(*nomad.Job) {
	return func(j *nomad.Job) {
		n := &nomad.NetworkResource{}
		for i, v := range values {
			n.ReservedPorts = append(n.ReservedPorts, nomad.Port{Label: fmt.Sprintf("p%d", i), Value: v})
		}
		j.TaskGroups[0].Networks = []*nomad.NetworkResource{n}
	}
}

func TestConstraintOperators(t *testing.T) {
	for _, tt := range []struct {
		l, op, r string
		met      bool
	}{
		{"${attr.kernel.name}", "=", "linux", true},
		{"${attr.kernel.name}", "==", "linux", true},
		{"${attr.kernel.name}", "is", "plan9", false},
		{"${attr.kernel.name}", "!=", "plan9", true},
		{"${attr.absent}", "=", "", false},
		{"${attr.absent}", "!=", "x", true},
		{"${unknown.thing}", "=", "x", false},
		{"${attr.n}", "<", "10", true}, // as numbers, not as text
		{"${attr.n}", "<=", "9", true},
		{"${attr.n}", ">", "8.5", true},
		{"${attr.n}", ">=", "10", false},
		{"${attr.kernel.name}", "<", "m", true},
		{"${attr.n}", "<", "nine", true}, // one of them is text
		{"${attr.kernel.name}", ">", "10", true},
		{"${attr.absent}", "<", "10", false},
		{"${attr.ver}", "version", ">= 1.4, < 2.0", true},
		{"${attr.ver}", "version", "~> 1.3.0", false},
		{"${attr.ver}", "version", "nonsense", false},
		{"${attr.ver}", "semver", ">= 1.4.2-beta", true},
		{"${attr.ver}", "semver", "> 1.4.2", false},
		{"${attr.ver}", "semver", ">= 1.4.2-beta, >= 2.0", false},
		{"${attr.ver}", "semver", ">= nonsense", false},
		{"${attr.ver}", "semver", "> 1.0.0 2", false},
		{"${attr.kernel.name}", "semver", "!= 1.0.0", false},
		{"${attr.kernel.name}", "version", "> 1", false},
		{"${attr.kernel.name}", "regexp", "^li.*x$", true},
		{"${attr.kernel.name}", "regexp", "(", false},
		{"${attr.features}", "set_contains", "a,c", true},
		{"${attr.features}", "set_contains_all", "a,d", false},
		{"${attr.features}", "set_contains_any", "d,b", true},
		{"${attr.features}", "set_contains_any", "d", false},
		{"${attr.ver}", "is_set", "", true},
		{"${attr.absent}", "is_set", "", false},
		{"${attr.absent}", "is_not_set", "", true},
		{"${meta.rack}", "=", "r1", true},
		{"${node.unique.id}", "=", "n1", true},
		{"${node.unique.name}", "=", "name-n1", true},
		{"${node.datacenter}", "=", "dc1", true},
		{"${node.region}", "=", "global", true},
		{"${node.class}", "=", "big", true},
		{"${node.pool}", "=", "default", true},
		{"r1", "=", "${meta.rack}", true},
		{"${attr.n}", "unheard of", "9", false},
	} {
		t.Run(fmt.Sprint(tt.l, tt.op, tt.r), func(t *testing.T) {
			require.Equal(t, tt.met, meets(&nomad.Constraint{LTarget: tt.l, Operand: tt.op, RTarget: tt.r}, testNode("n1")))
		})
	}
}

func TestDistinctHostsAndProperties(t *testing.T) {
	for name, c := range map[string]func(*nomad.Job){
		"hosts":    constraint("", "distinct_hosts", "true"),
		"property": constraint("${meta.rack}", "distinct_property", ""),
		"two":      constraint("${node.datacenter}", "distinct_property", "1"),
	} {
		t.Run(name, func(t *testing.T) {
			cl := newCluster(t, testNode("n1"))
			res := cl.run(testJob("service", count1(2), c))
			require.Len(t, res.Place, 1)
			require.Equal(t, 1, res.Queued["g"])
			// An update in place of the one that runs is not a conflict with itself.
			require.Empty(t, cl.run(testJob("service", count1(1), c, atVersion(2), func(j *nomad.Job) { j.Priority = new(60) })).Stop)
		})
	}
}

func TestAnAllocationTakesUntilItHasEndedButItsSuccessorMayHaveIt(t *testing.T) {
	big := func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB = new(900) }
	other := func(j *nomad.Job) { j.ID = new("other") }
	c := newCluster(t, testNode("n1"))
	first := c.run(testJob("service", big, staticPorts(80))).Place[0]
	// A destructive update takes over memory and port.
	res := c.run(testJob("service", big, staticPorts(80), atVersion(2), func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].User = "u" }))
	require.Len(t, res.Place, 1)
	second := res.Place[0]
	require.Equal(t, first.ID, second.PreviousAllocation)
	// Nobody else fits while either is there.
	require.Equal(t, map[string]int{"memory": 1}, c.run(testJob("service", big, other)).Failed["g"].DimensionExhausted)
	c.end(first.ID, structs.ClientComplete)
	require.NotEmpty(t, c.run(testJob("service", big, other)).Failed)
	c.schedule(testJob("service", atVersion(3)), true)
	require.NotEmpty(t, c.run(testJob("service", big, other)).Failed, "told to stop is not ended")
	c.end(second.ID, structs.ClientComplete)
	require.Empty(t, c.run(testJob("service", big, other, staticPorts(80))).Failed)
}

// rescheduledAtOnce replaces what fails without a delay.
func rescheduledAtOnce(j *nomad.Job) {
	j.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Delay: new(time.Duration(0)), Unlimited: new(true)}
}

func asUser(name string) func(*nomad.Job) {
	return func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].User = name }
}

// A node does not know what an allocation on another node replaced, so that nothing
// there would wait for the first allocation's end.
func TestAnAllocationThatEndedOnAnotherNodePassesNothingOn(t *testing.T) {
	ends := map[string]func(c *cluster, second *Alloc){
		"lost": func(c *cluster, _ *Alloc) { c.nodes[1].Status = structs.NodeDown },
		"failed": func(c *cluster, second *Alloc) {
			c.end(second.ID, structs.ClientFailed)
			c.nodes[1].Eligibility = structs.NodeIneligible
		},
	}
	for dimension, needs := range map[string]func(*nomad.Job){
		"network: reserved port collision p0=80": staticPorts(80),
		"memory":                                 func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB = new(600) },
		"cores":                                  func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.Cores = new(3) },
		"devices: nvidia/gpu: 2 asked for, 0 free": asks(ask("nvidia/gpu", 2)),
	} {
		for name, end := range ends {
			t.Run(name+" "+dimension, func(t *testing.T) {
				c := newCluster(t, gpuNode("n1"), gpuNode("n2"))
				first := c.run(testJob("service", needs, rescheduledAtOnce)).Place[0]
				j := testJob("service", needs, rescheduledAtOnce, atVersion(2), asUser("u"), affinity("${node.unique.id}", "=", "n2", 100))
				second := c.run(j).Place[0]
				require.Equal(t, []string{"n1", "n2"}, []string{first.NodeID, second.NodeID})
				require.Equal(t, first.ID, second.PreviousAllocation)
				end(c, second)
				res := c.run(j)
				require.Empty(t, res.Place, "the first has not ended")
				require.Equal(t, map[string]int{dimension: 1}, res.Failed["g"].DimensionExhausted)
				c.end(first.ID, structs.ClientComplete)
				require.Len(t, c.run(j).Place, 1)
			})
		}
	}
}

func TestAnAllocationThatEndedOnTheSameNodePassesOnWhatItWaitedFor(t *testing.T) {
	c := newCluster(t, testNode("n1"))
	c.run(testJob("service", staticPorts(80), rescheduledAtOnce))
	j := testJob("service", staticPorts(80), rescheduledAtOnce, atVersion(2), asUser("u"))
	second := c.run(j).Place[0]
	c.end(second.ID, structs.ClientFailed)
	res := c.run(j)
	require.Len(t, res.Place, 1)
	require.Equal(t, second.ID, res.Place[0].PreviousAllocation)
}

func TestPortsAreDistinctAndInRange(t *testing.T) {
	dynamic := func(j *nomad.Job) {
		j.TaskGroups[0].Networks = []*nomad.NetworkResource{{
			ReservedPorts: []nomad.Port{{Label: "s", Value: 20005, To: -1}},
			DynamicPorts:  []nomad.Port{{Label: "a", To: 80}, {Label: "b"}},
		}}
	}
	c := newCluster(t, testNode("n1"))
	res := c.run(testJob("service", dynamic, count1(2)))
	require.Len(t, res.Place, 1, "the static port is taken")
	ports := res.Place[0].Resources.Ports
	require.Equal(t, structs.AllocatedPort{Label: "s", HostIP: "10.0.0.1", Value: 20005, To: 20005}, ports[0])
	seen := map[int]bool{}
	for _, p := range ports {
		require.False(t, seen[p.Value])
		seen[p.Value] = true
		require.GreaterOrEqual(t, p.Value, structs.MinDynamicPort)
		require.LessOrEqual(t, p.Value, structs.MaxDynamicPort)
	}
	require.Equal(t, 80, ports[1].To)
}

func TestDynamicPortsRunOut(t *testing.T) {
	n := testNode("n1")
	u := &use{owners: map[thing][]*chain{}}
	for p := structs.MinDynamicPort; p <= structs.MaxDynamicPort; p++ {
		u.owners[portThing(p)] = []*chain{{}}
	}
	g := &nomad.TaskGroup{Networks: []*nomad.NetworkResource{{DynamicPorts: []nomad.Port{{Label: "a"}}}}}
	var r structs.AllocatedResources
	require.Equal(t, "network: dynamic port selection failed", u.assignPorts(n, &claim{}, "me", g, &r))
	delete(u.owners, portThing(25000))
	require.Empty(t, u.assignPorts(n, &claim{}, "me", g, &r))
	require.Equal(t, 25000, r.Ports[0].Value)
}

func TestCoresAreGivenOnce(t *testing.T) {
	cores := func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{Cores: new(2)} }
	c := newCluster(t, testNode("n1"))
	res := c.run(testJob("service", cores, count1(3)))
	require.Len(t, res.Place, 2)
	require.Equal(t, []int{0, 1}, res.Place[0].Resources.Tasks["t"].Cores)
	require.Equal(t, []int{2, 3}, res.Place[1].Resources.Tasks["t"].Cores)
	require.Equal(t, 500, res.Place[1].Resources.Tasks["t"].CPUMHz)
	require.Equal(t, 1, res.Failed["g"].DimensionExhausted["cores"])
}

func TestACompletedBatchIsDoneAndAServiceIsNot(t *testing.T) {
	for _, kind := range []string{"batch", "sysbatch", "system"} {
		c := newCluster(t, testNode("n1"))
		j := testJob(kind)
		c.run(j)
		c.end(c.only().ID, structs.ClientComplete)
		res := c.run(j)
		require.False(t, res.Changes(), kind)
		require.Empty(t, res.Later, kind)
	}
	c := newCluster(t, testNode("n1"))
	j := testJob("service")
	c.run(j)
	c.end(c.only().ID, structs.ClientComplete)
	require.Len(t, c.run(j).Later, 1)
}

func TestACompletedBatchRunsAgainWhenTheJobChangedOrWasStartedAgain(t *testing.T) {
	ended := func() *cluster {
		c := newCluster(t, testNode("n1"))
		c.run(testJob("batch"))
		c.end(c.only().ID, structs.ClientComplete)
		return c
	}
	require.Len(t, ended().run(testJob("batch", atVersion(2), func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].User = "u" })).Place, 1)
	c := ended()
	res := c.run(testJob("batch", atVersion(2), count1(2)))
	require.Len(t, res.Place, 1, "a new count runs what is new only")
	require.Equal(t, "job.g[1]", res.Place[0].Name)
	c = ended()
	in := c.input(testJob("batch", atVersion(3)), false)
	in.Since = 3
	require.Len(t, Schedule(in).Place, 1)
}

func reschedule(p nomad.ReschedulePolicy) func(*nomad.Job) {
	return func(j *nomad.Job) { j.TaskGroups[0].ReschedulePolicy = &p }
}

func TestFailedAllocationsAreReplacedByPolicy(t *testing.T) {
	for name, tt := range map[string]struct {
		policy nomad.ReschedulePolicy
		delays []time.Duration // of each replacement; then there is none
		more   bool            // there is another
	}{
		"attempts": {nomad.ReschedulePolicy{Attempts: new(2), Interval: new(time.Hour), Delay: new(5 * time.Second), DelayFunction: new("constant"), Unlimited: new(false)},
			[]time.Duration{5 * time.Second, 5 * time.Second}, false},
		"none": {nomad.ReschedulePolicy{Attempts: new(0), Unlimited: new(false)}, nil, false},
		"exponential": {nomad.ReschedulePolicy{Unlimited: new(true), Delay: new(5 * time.Second), DelayFunction: new("exponential"), MaxDelay: new(30 * time.Second)},
			[]time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second, 30 * time.Second}, true},
		"fibonacci": {nomad.ReschedulePolicy{Unlimited: new(true), Delay: new(5 * time.Second), DelayFunction: new("fibonacci"), MaxDelay: new(20 * time.Second)},
			[]time.Duration{5 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 20 * time.Second, 20 * time.Second}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, testNode("n1"))
			j := testJob("service", reschedule(tt.policy))
			id := c.run(j).Place[0].ID
			for i, d := range tt.delays {
				c.end(id, structs.ClientFailed)
				res := c.run(j)
				require.Empty(t, res.Place)
				require.Equal(t, []Later{{ID: id, At: c.now.Add(d)}}, res.Later, "replacement %d", i)
				c.now = c.now.Add(d - 1)
				require.Empty(t, c.run(j).Place)
				c.now = c.now.Add(1)
				res = c.run(j)
				require.Len(t, res.Place, 1)
				require.Equal(t, id, res.Place[0].PreviousAllocation)
				require.Len(t, res.Place[0].Reschedules, i+1)
				require.Equal(t, structs.DesiredStop, c.allocs[id].DesiredStatus)
				require.Equal(t, res.Place[0].ID, c.allocs[id].NextAllocation)
				id = res.Place[0].ID
			}
			c.end(id, structs.ClientFailed)
			res := c.run(j)
			require.Empty(t, res.Place)
			require.Equal(t, tt.more, len(res.Later) > 0)
		})
	}
}

func TestAttemptsAreCountedWithinTheIntervalAndADelayStartsOver(t *testing.T) {
	p := &nomad.ReschedulePolicy{Attempts: new(1), Interval: new(time.Hour), Delay: new(time.Minute), MaxDelay: new(90 * time.Second), DelayFunction: new("exponential")}
	a := &Alloc{Allocation: &structs.Allocation{
		CreateTime: epoch.UnixNano(), ModifyTime: epoch.Add(30 * time.Minute).UnixNano(),
		Reschedules: []structs.Reschedule{{Time: epoch.UnixNano(), Delay: time.Minute}},
	}}
	_, _, ok := next(p, a)
	require.False(t, ok)
	a.ModifyTime = epoch.Add(61 * time.Minute).UnixNano()
	at, r, ok := next(p, a)
	require.True(t, ok)
	require.Equal(t, time.Minute, r.Delay, "it lived longer than the longest delay")
	require.True(t, at.Equal(epoch.Add(62*time.Minute)))
	p.MaxDelay = new(2 * time.Hour)
	_, r, _ = next(p, a)
	require.Equal(t, 2*time.Minute, r.Delay, "the longest delay is not reached")
	p.DelayFunction, p.MaxDelay = new("fibonacci"), new(90*time.Second)
	a.Reschedules = []structs.Reschedule{{Delay: 90 * time.Second}, {Time: epoch.UnixNano(), Delay: time.Minute}}
	a.ModifyTime = epoch.Add(time.Minute).UnixNano()
	p.Attempts = new(10)
	_, r, _ = next(p, a)
	require.Equal(t, time.Minute, r.Delay, "it goes on from where it started over")
}

func TestSystemJobsRunOnceOnEveryFeasibleNode(t *testing.T) {
	other := testNode("n2")
	other.Attributes["kernel.name"] = "plan9"
	c := newCluster(t, testNode("n1"), other, testNode("n3"))
	all := func(j *nomad.Job) { j.TaskGroups[0].Update = parallel(0) }
	j := testJob("system", constraint("${attr.kernel.name}", "=", "linux"), all)
	res := c.run(j)
	require.Len(t, res.Place, 2)
	require.Empty(t, res.Failed, "a node that may not run it is not a failure when others may")
	// A failed one stays as it is until the job changes.
	c.end(res.Place[0].ID, structs.ClientFailed)
	require.False(t, c.run(j).Changes())
	res = c.run(testJob("system", atVersion(2), all, func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].User = "u" }))
	require.Len(t, res.Place, 3)
}

func TestWhatRanOnALostNodeIsLostAndReplaced(t *testing.T) {
	n1 := testNode("n1")
	c := newCluster(t, n1)
	j := testJob("service")
	a := c.run(j).Place[0]
	n1.Status = structs.NodeDown
	res := c.run(j)
	require.Equal(t, []Stop{{ID: a.ID, Description: descLost, Lost: true}}, res.Stop)
	require.Equal(t, 1, res.Queued["g"])
	c.nodes = append(c.nodes, testNode("n2"))
	require.Len(t, c.run(j).Place, 1)
}

// An allocation may take all that a node has, and not one more.
func TestAnAllocationFitsUpToTheLast(t *testing.T) {
	has := capacityOf(testNode("n1"))
	for want, more := range map[string]amounts{"": {}, "cpu": {cpu: 1}, "memory": {memory: 1}, "disk": {disk: 1}} {
		res := newCluster(t, testNode("n1")).run(testJob("service", func(j *nomad.Job) {
			r := j.TaskGroups[0].Tasks[0].Resources
			r.CPU, r.MemoryMB = new(has.cpu+more.cpu), new(has.memory+more.memory)
			j.TaskGroups[0].EphemeralDisk.SizeMB = new(has.disk + more.disk)
		}))
		if want == "" {
			require.Len(t, res.Place, 1)
			require.Equal(t, map[string]int{"g": 0}, res.Queued)
			continue
		}
		require.Empty(t, res.Place, want)
		require.Equal(t, map[string]int{want: 1}, res.Failed["g"].DimensionExhausted)
	}
}

func TestWhatHasNoPlaceForOneReasonIsCounted(t *testing.T) {
	res := newCluster(t).run(testJob("service", count1(3)))
	require.Equal(t, 2, res.Failed["g"].CoalescedFailures, "beside the first")
	require.Equal(t, map[string]int{"g": 3}, res.Queued)
}

func TestAnAllocationEndedWhenItsLastTaskDid(t *testing.T) {
	a := &Alloc{Allocation: &structs.Allocation{ModifyTime: epoch.Add(time.Hour).UnixNano()}}
	require.True(t, endOf(a).Equal(epoch.Add(time.Hour)), "as far as is known")
	a.TaskStates = map[string]*structs.TaskState{"a": {FinishedAt: epoch.Add(time.Minute)}, "b": {FinishedAt: epoch}, "c": {}}
	require.True(t, endOf(a).Equal(epoch.Add(time.Minute)))
}

func TestWhatRunsWhereTheJobMayNoLongerRunIsMoved(t *testing.T) {
	for name, change := range map[string]func(*nomad.Job){
		"pool":       func(j *nomad.Job) { j.NodePool = new("other") },
		"datacenter": func(j *nomad.Job) { j.Datacenters = []string{"dc9"} },
		"constraint": constraint("${meta.rack}", "=", "r9"),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, testNode("n1"))
			a := c.run(testJob("system")).Place[0]
			res := c.run(testJob("system", atVersion(2), change))
			require.Len(t, res.Stop, 1)
			require.Equal(t, a.ID, res.Stop[0].ID)
			require.Empty(t, res.Update)
		})
	}
}

func TestAnUnhealthyDriverDoesNotStopRunningTasks(t *testing.T) {
	n := testNode("n1")
	c := newCluster(t, n)
	j := testJob("service")
	c.run(j)
	n.Drivers["mock"].Healthy = false
	n.Eligibility = structs.NodeIneligible
	require.False(t, c.run(j).Changes())
	require.False(t, c.run(testJob("service", atVersion(2), func(j *nomad.Job) { j.Priority = new(1) })).Stop != nil)
}

func TestThePlaceWithTheFewestOfTheJobIsTaken(t *testing.T) {
	c := newCluster(t, testNode("n1"), testNode("n2"))
	c.run(testJob("service", count1(4)))
	on := map[string]int{}
	for _, a := range c.sorted() {
		on[a.NodeID]++
	}
	require.Equal(t, map[string]int{"n1": 2, "n2": 2}, on)
}
