package standalone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// volumeNode is a node that makes volumes by remembering them.
type volumeNode struct {
	t    *testing.T
	cp   *ControlPlane
	id   string
	mu   sync.Mutex
	node *structs.Node
	// during, unless it is nil, is what happens while a plugin runs.
	during func(v *nomad.HostVolume) error
}

func withVolumes(t *testing.T, path string) *volumeNode {
	node := testNode()
	n := &volumeNode{t: t, cp: open(t, path), id: node.ID, node: node}
	n.node.Attributes["plugins.host_volume.mkdir.version"] = "0.0.1"
	registerNode(t, n.cp, n.node)
	n.cp.SetVolumeHost(n)
	return n
}

func (n *volumeNode) ID() string { return n.id }

func (n *volumeNode) VolumesReady(context.Context) error { return nil }

func (n *volumeNode) CreateVolume(_ context.Context, v *nomad.HostVolume) (structs.MadeVolume, error) {
	if n.during != nil {
		if err := n.during(v); err != nil {
			return structs.MadeVolume{}, err
		}
	}
	made := structs.MadeVolume{Path: "/volumes/" + v.ID, CapacityBytes: 7}
	n.change(func(next *structs.Node) {
		if next.HostVolume(v.Name) == nil {
			next.HostVolumes = append(next.HostVolumes, structs.HostVolume{Name: v.Name, ID: v.ID, Path: made.Path})
		}
	})
	return made, nil
}

func (n *volumeNode) DeleteVolume(_ context.Context, v *nomad.HostVolume) error {
	if n.during != nil {
		if err := n.during(v); err != nil {
			return err
		}
	}
	n.lose(v.Name)
	return nil
}

// lose has the node show a volume no more.
func (n *volumeNode) lose(name string) {
	n.change(func(next *structs.Node) {
		var rest []structs.HostVolume
		for _, o := range next.HostVolumes {
			if o.Name != name {
				rest = append(rest, o)
			}
		}
		next.HostVolumes = rest
	})
}

func (n *volumeNode) change(change func(*structs.Node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := n.node.Copy()
	change(next)
	n.node = next
	registerNode(n.t, n.cp, next)
}

func hostVolume(name string, change ...func(*nomad.HostVolume)) *nomad.HostVolume {
	v := &nomad.HostVolume{Name: name, Namespace: "default", PluginID: "mkdir"}
	for _, c := range change {
		c(v)
	}
	return v
}

func (n *volumeNode) create(name string, change ...func(*nomad.HostVolume)) *nomad.HostVolume {
	v, err := n.cp.CreateHostVolume(n.t.Context(), hostVolume(name, change...))
	require.NoError(n.t, err)
	return v
}

// mounting has a job's group ask for a volume.
func mounting(source string, change ...func(*nomad.VolumeRequest)) func(*nomad.Job) {
	return func(j *nomad.Job) {
		r := &nomad.VolumeRequest{Type: "host", Source: source}
		for _, c := range change {
			c(r)
		}
		j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": r}
	}
}

func access(mode string) func(*nomad.VolumeRequest) {
	return func(r *nomad.VolumeRequest) { r.AccessMode = mode }
}

func readOnly(r *nomad.VolumeRequest) { r.ReadOnly = true }
func sticky(r *nomad.VolumeRequest)   { r.Sticky = true }

func TestAVolumeIsMadeMountedAndDeleted(t *testing.T) {
	n := withVolumes(t, "")
	waits := run(t, n.cp, testJob("db", "service", mounting("data")))
	require.Equal(t, map[string]int{"missing compatible host volumes": 1}, waits.FailedTGAllocs["g"].ConstraintFiltered)
	_, place := told(t, n.cp, 0)

	v := n.create("data")
	require.Equal(t, nomad.HostVolumeStateReady, v.State)
	require.Equal(t, "/volumes/"+v.ID, v.HostPath)
	require.EqualValues(t, 7, v.CapacityBytes)
	require.Equal(t, []string{n.node.ID, "default"}, []string{v.NodeID, v.NodePool})
	require.Equal(t, []*nomad.HostVolumeCapability{{AttachmentMode: "file-system", AccessMode: "single-node-writer"}}, v.RequestedCapabilities)
	require.Len(t, wanted(n.cp, "db"), 1, "who waited is placed")
	events, place := told(t, n.cp, place)
	require.Contains(t, words(events), "HostVolume HostVolumeRegistered")

	users := n.cp.VolumeAllocations(v.ID)
	require.Len(t, users, 1)
	_, err := n.cp.DeleteHostVolume(t.Context(), "default", v.ID, true)
	require.EqualError(t, err, fmt.Sprintf("volume %s in use by allocations: [%s]", v.ID, users[0].ID))
	change := hostVolume("data", func(c *nomad.HostVolume) { c.ID = v.ID })
	_, err = n.cp.CreateHostVolume(t.Context(), change)
	require.ErrorContains(t, err, "cannot update a volume in use: claimed by allocs ("+users[0].ID+")")

	_, err = n.cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "db"})
	require.NoError(t, err)
	_, err = n.cp.DeleteHostVolume(t.Context(), "default", v.ID, false)
	require.ErrorContains(t, err, "in use", "what is told to stop has it until it has")
	report(t, n.cp, users[0], structs.ClientComplete)
	_, err = n.cp.DeleteHostVolume(t.Context(), "other", v.ID, false)
	require.ErrorIs(t, err, errdefs.NotFound)
	index, err := n.cp.DeleteHostVolume(t.Context(), "default", v.ID, false)
	require.NoError(t, err)
	require.Equal(t, n.cp.Index(TableHostVolumes), index)
	require.Empty(t, n.cp.HostVolumes())
	events, _ = told(t, n.cp, place)
	require.Contains(t, words(events), "HostVolume HostVolumeDeleted deleted")
	_, err = n.cp.DeleteHostVolume(t.Context(), "default", v.ID, false)
	require.EqualError(t, err, "no such volume: "+v.ID)
}

func TestAVolumeIsChangedByItsID(t *testing.T) {
	n := withVolumes(t, "")
	v := n.create("data")
	changed, err := n.cp.CreateHostVolume(t.Context(), &nomad.HostVolume{
		ID: v.ID, Name: "data", Namespace: "default", RequestedCapacityMaxBytes: 7, Parameters: map[string]string{"mode": "0777"},
	})
	require.NoError(t, err)
	require.Equal(t, nomad.HostVolumeStateReady, changed.State)
	require.Equal(t, []any{v.CreateIndex, v.CreateTime, "mkdir", v.HostPath}, []any{changed.CreateIndex, changed.CreateTime, changed.PluginID, changed.HostPath})
	require.Equal(t, "0777", changed.Parameters["mode"])
	for fault, change := range map[string]func(*nomad.HostVolume){
		"node ID cannot be updated":                                                    func(c *nomad.HostVolume) { c.NodeID = "x" },
		"node pool cannot be updated":                                                  func(c *nomad.HostVolume) { c.NodePool = "x" },
		`name cannot be updated: it is "data"`:                                         func(c *nomad.HostVolume) { c.Name = "x" },
		`plugin ID cannot be updated: it is "mkdir"`:                                   func(c *nomad.HostVolume) { c.PluginID = "x" },
		"capacity_max (6) cannot be less than existing provisioned capacity (7)":       func(c *nomad.HostVolume) { c.RequestedCapacityMaxBytes = 6 },
		`cannot update volume "11111111-1111-1111-1111-111111111112": volume does not`: func(c *nomad.HostVolume) { c.ID = "11111111-1111-1111-1111-111111111112" },
	} {
		c := hostVolume("data", func(c *nomad.HostVolume) { c.ID = v.ID }, change)
		_, err := n.cp.CreateHostVolume(t.Context(), c)
		require.ErrorContains(t, err, fault)
	}
	n.during = func(*nomad.HostVolume) error { return errors.New("broken") }
	_, err = n.cp.CreateHostVolume(t.Context(), hostVolume("data", func(c *nomad.HostVolume) { c.ID = v.ID }))
	require.EqualError(t, err, "broken")
	require.Equal(t, changed, n.cp.HostVolume("default", v.ID), "what could not be changed is as it was")
}

func TestAVolumeThatCannotBeIsOneLine(t *testing.T) {
	n := withVolumes(t, "")
	n.change(func(next *structs.Node) { next.HostVolumes = []structs.HostVolume{{Name: "static", Path: "/srv"}} })
	other := n.create("other")
	capability := func(c *nomad.HostVolumeCapability) func(*nomad.HostVolume) {
		return func(v *nomad.HostVolume) { v.RequestedCapabilities = []*nomad.HostVolumeCapability{c} }
	}
	constraint := func(c *nomad.Constraint) func(*nomad.HostVolume) {
		return func(v *nomad.HostVolume) { v.Constraints = []*nomad.Constraint{c} }
	}
	for name, c := range map[string]struct {
		change func(*nomad.HostVolume)
		fault  string // empty: there is none
	}{
		"no name":               {func(v *nomad.HostVolume) { v.Name = "" }, "volume validation failed: missing name"},
		"the longest name":      {func(v *nomad.HostVolume) { v.Name = strings.Repeat("n", maxVolumeName) }, ""},
		"a longer one":          {func(v *nomad.HostVolume) { v.Name = strings.Repeat("n", maxVolumeName+1) }, "volume validation failed: name: it has 129 bytes; at most 128"},
		"a name that is a line": {func(v *nomad.HostVolume) { v.Name = "a\nb" }, "control characters"},
		"no UUID":               {func(v *nomad.HostVolume) { v.ID = "x" }, `volume validation failed: invalid ID "x"`},
		"another namespace":     {func(v *nomad.HostVolume) { v.Namespace = "x" }, `volume validation failed: no such namespace "x"`},
		"less than no bytes":    {func(v *nomad.HostVolume) { v.RequestedCapacityMinBytes = -1 }, "capacity_min (-1) and capacity_max (0) must not be negative"},
		"less than the least":   {func(v *nomad.HostVolume) { v.RequestedCapacityMinBytes = 2; v.RequestedCapacityMaxBytes = 1 }, "capacity_max (1) must be larger than capacity_min (2)"},
		"exactly so much":       {func(v *nomad.HostVolume) { v.RequestedCapacityMinBytes = 2; v.RequestedCapacityMaxBytes = 2 }, ""},
		"no access mode":        {capability(&nomad.HostVolumeCapability{AttachmentMode: "file-system"}), `capability 1: invalid access mode: ""`},
		"no attachment mode":    {capability(&nomad.HostVolumeCapability{AccessMode: "single-node-writer"}), `capability 1: invalid attachment mode: ""`},
		"many nodes":            {capability(&nomad.HostVolumeCapability{AccessMode: "multi-node-multi-writer", AttachmentMode: "file-system"}), `invalid access mode: "multi-node-multi-writer"`},
		"null":                  {capability(nil), "capability 1: it is empty"},
		"too many capabilities": {func(v *nomad.HostVolume) { v.RequestedCapabilities = make([]*nomad.HostVolumeCapability, 17) }, "capability: there are 17; at most 16"},
		"too many constraints":  {func(v *nomad.HostVolume) { v.Constraints = make([]*nomad.Constraint, 65) }, "constraint: there are 65; at most 64"},
		"all parameters": {func(v *nomad.HostVolume) {
			v.Parameters = map[string]string{"p": strings.Repeat("x", maxVolumeParameters-1)}
		}, ""},
		"more parameters": {func(v *nomad.HostVolume) {
			v.Parameters = map[string]string{"p": strings.Repeat("x", maxVolumeParameters)}
		}, "parameters: they have 32769 bytes; at most 32768"},
		"distinct hosts":      {constraint(&nomad.Constraint{Operand: "distinct_hosts"}), "invalid constraint distinct_hosts: host volumes of the same name are always on distinct hosts"},
		"a bad constraint":    {constraint(&nomad.Constraint{Operand: "regexp", LTarget: "x", RTarget: "("}), "Regular expression failed to compile"},
		"another kernel":      {constraint(&nomad.Constraint{Operand: "=", LTarget: "${attr.kernel.name}", RTarget: "plan9"}), `could not place volume "v": no node meets constraints: ${attr.kernel.name} = plan9`},
		"this kernel":         {constraint(&nomad.Constraint{Operand: "=", LTarget: "${attr.kernel.name}", RTarget: "linux"}), ""},
		"no such plugin":      {func(v *nomad.HostVolume) { v.PluginID = "x" }, `could not place volume "v": the node has no host volume plugin "x": it has mkdir`},
		"no plugin":           {func(v *nomad.HostVolume) { v.PluginID = "" }, `the node has no host volume plugin "default": it has mkdir`},
		"no such node":        {func(v *nomad.HostVolume) { v.NodeID = "x" }, `could not place volume "v": node "x" does not exist`},
		"no such pool":        {func(v *nomad.HostVolume) { v.NodePool = "x" }, `could not place volume "v": node pool "x" does not exist`},
		"another pool":        {func(v *nomad.HostVolume) { v.NodePool = "all" }, `is not in pool "all", but in "default"`},
		"this pool":           {func(v *nomad.HostVolume) { v.NodePool = "default" }, ""},
		"a taken name":        {func(v *nomad.HostVolume) { v.Name = "other" }, `volume name already exists on this node: it is that of ` + other.ID},
		"a static one's name": {func(v *nomad.HostVolume) { v.Name = "static" }, `client.host_volume "static" of the node's configuration has that name`},
	} {
		t.Run(name, func(t *testing.T) {
			v := hostVolume("v", c.change)
			made, err := n.cp.CreateHostVolume(t.Context(), v)
			if c.fault == "" {
				require.NoError(t, err)
				_, err = n.cp.DeleteHostVolume(t.Context(), "default", made.ID, false)
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.fault)
			require.NotContains(t, err.Error(), "\n")
			require.Len(t, n.cp.HostVolumes(), 1)
		})
	}
	for fault, v := range map[string]*nomad.HostVolume{
		"cannot register volume: node ID is required":   {Name: "r", Namespace: "default", HostPath: "/x"},
		"cannot register volume: host path is required": {Name: "r", Namespace: "default", NodeID: n.ID()},
		`it has the plugin_id "mkdir"`:                  {Name: "r", Namespace: "default", NodeID: n.ID(), HostPath: "/x", PluginID: "mkdir"},
	} {
		_, err := n.cp.RegisterHostVolume(t.Context(), v)
		require.ErrorContains(t, err, fault)
	}
}

func TestANodeHasAMostOfVolumes(t *testing.T) {
	n := withVolumes(t, "")
	require.NoError(t, n.cp.write(func(t *tx) error {
		for i := range maxHostVolumes - 1 {
			t.putVolume(&nomad.HostVolume{ID: fmt.Sprint(i), Name: fmt.Sprint(i), NodeID: n.node.ID})
		}
		return nil
	}))
	n.create("last")
	_, err := n.cp.CreateHostVolume(t.Context(), hostVolume("more"))
	require.EqualError(t, err, `could not place volume "more": a node has at most 1000`)
}

// A plugin that fails leaves nothing, unless it failed because the node ends.
func TestWhatAPluginDoesNotMakeIsNotKept(t *testing.T) {
	n := withVolumes(t, "")
	n.during = func(*nomad.HostVolume) error { return errors.New("no room") }
	_, err := n.cp.CreateHostVolume(t.Context(), hostVolume("data"))
	require.EqualError(t, err, "no room")
	require.Empty(t, n.cp.HostVolumes())
	n.during = func(*nomad.HostVolume) error { return errdefs.New(errdefs.Unavailable, "ending") }
	_, err = n.cp.CreateHostVolume(t.Context(), hostVolume("data"))
	require.EqualError(t, err, "ending")
	require.Len(t, n.cp.HostVolumes(), 1)
	require.Equal(t, nomad.HostVolumeStatePending, n.cp.HostVolumes()[0].State)
}

func TestAVolumeThatIsNotDeletedIsThere(t *testing.T) {
	n := withVolumes(t, "")
	v := n.create("data")
	n.during = func(*nomad.HostVolume) error {
		e := run(t, n.cp, testJob("db", "service", mounting("data")))
		require.Contains(t, e.FailedTGAllocs["g"].ConstraintFiltered, `host volume "data": it is of another namespace, or is being deleted`)
		return errors.New("busy")
	}
	_, err := n.cp.DeleteHostVolume(t.Context(), "default", v.ID, false)
	require.EqualError(t, err, "busy")
	require.Equal(t, v, n.cp.HostVolume("default", v.ID))
	require.Len(t, wanted(n.cp, "db"), 1, "who wanted it meanwhile has it now")
}

// TestAVolumeOutlivesAKillAtAnyTime opens what was durable while a plugin ran.
func TestAVolumeOutlivesAKillAtAnyTime(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "server.db")
	n := withVolumes(t, path)
	killed := func(name string) *ControlPlane {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		copied := filepath.Join(dir, name, "server.db")
		require.NoError(t, os.Mkdir(filepath.Dir(copied), 0o700))
		require.NoError(t, os.WriteFile(copied, b, 0o600))
		return open(t, copied)
	}
	again := func(cp *ControlPlane) structs.NodeVolume {
		list, err := cp.ForNode().NodeVolumes(t.Context(), n.node.ID)
		require.NoError(t, err)
		require.Len(t, list, 1)
		return list[0]
	}

	var cp *ControlPlane
	n.during = func(*nomad.HostVolume) error {
		list, err := n.cp.ForNode().NodeVolumes(t.Context(), n.node.ID)
		require.NoError(t, err)
		require.Empty(t, list, "nobody else has it made meanwhile")
		cp = killed("made")
		return nil
	}
	v := n.create("data")
	row := again(cp)
	require.False(t, row.Deleting)
	require.Equal(t, []any{v.ID, nomad.HostVolumeStatePending}, []any{row.Volume.ID, row.Volume.State})
	require.NoError(t, cp.ForNode().VolumeMade(t.Context(), n.node.ID, v.ID, structs.MadeVolume{Path: v.HostPath, CapacityBytes: 7}))
	registerNode(t, cp, n.node)
	is := cp.HostVolume("default", v.ID)
	require.Equal(t, []any{v.HostPath, v.CapacityBytes, nomad.HostVolumeStateReady}, []any{is.HostPath, is.CapacityBytes, is.State})

	n.during = func(*nomad.HostVolume) error { cp = killed("deleted"); return nil }
	_, err := n.cp.DeleteHostVolume(t.Context(), "default", v.ID, false)
	require.NoError(t, err)
	require.True(t, again(cp).Deleting)
	require.NoError(t, cp.ForNode().VolumeRemoved(t.Context(), n.node.ID, v.ID))
	require.Empty(t, cp.HostVolumes())
}

// What the node does not show after it has looked is not there, and nothing is placed on it.
func TestAVolumeIsAsItsNodeShowsIt(t *testing.T) {
	n := withVolumes(t, "")
	v := n.create("data")
	state := func() nomad.HostVolumeState { return n.cp.HostVolume("default", v.ID).State }
	had := n.node.HostVolumes
	n.change(func(next *structs.Node) { next.Status, next.HostVolumes = structs.NodeInitializing, nil })
	require.Equal(t, nomad.HostVolumeStateReady, state(), "it has not looked yet")
	n.change(func(next *structs.Node) { next.Status = structs.NodeReady })
	require.Equal(t, nomad.HostVolumeStateUnavailable, state())
	run(t, n.cp, testJob("db", "service", mounting("data")))
	require.Empty(t, wanted(n.cp, "db"))
	n.change(func(next *structs.Node) { next.HostVolumes = had })
	require.Equal(t, nomad.HostVolumeStateReady, state())
	require.Len(t, wanted(n.cp, "db"), 1)

	// Another node of that name has lost it; it is forgotten when a person says so.
	other := testNode()
	other.ID = "22222222-2222-2222-2222-222222222222"
	registerNode(t, n.cp, other)
	require.Equal(t, nomad.HostVolumeStateUnavailable, state())
	n.id, n.node = other.ID, other
	_, err := n.cp.DeleteHostVolume(t.Context(), "default", v.ID, false)
	require.EqualError(t, err, "volume cannot be removed from unknown node without force=true")
	n.cp.CollectGarbage()
	require.NotNil(t, n.cp.Node(v.NodeID))
	_, err = n.cp.PurgeNode(v.NodeID)
	require.NoError(t, err)
	require.Empty(t, n.cp.HostVolumes())
}

func TestVolumesAreAskedForAsTheyMayBe(t *testing.T) {
	const writer, reader, single, multi = "single-node-writer", "single-node-reader-only", "single-node-single-writer", "single-node-multi-writer"
	for name, c := range map[string]struct {
		has    string
		asked  []func(*nomad.VolumeRequest)
		unmet  string // empty: it is placed
		before []func(*nomad.VolumeRequest)
	}{
		"as by default":            {has: writer},
		"to read, by default":      {has: reader, asked: []func(*nomad.VolumeRequest){readOnly}},
		"writing to be read":       {has: reader, unmet: "it has no capability single-node-writer with file-system"},
		"reading to be written":    {has: writer, asked: []func(*nomad.VolumeRequest){readOnly}, unmet: "it has no capability single-node-reader-only with file-system"},
		"reading as a writer":      {has: writer, asked: []func(*nomad.VolumeRequest){readOnly, access(writer)}, unmet: "to be read only, it is asked for with access_mode single-node-reader-only"},
		"as a device":              {has: writer, asked: []func(*nomad.VolumeRequest){func(r *nomad.VolumeRequest) { r.AttachmentMode = "block-device" }}, unmet: "it has no capability single-node-writer with block-device"},
		"beside another writer":    {has: writer, before: []func(*nomad.VolumeRequest){access(writer)}},
		"one writer":               {has: single, asked: []func(*nomad.VolumeRequest){access(single)}},
		"one writer and another":   {has: single, before: []func(*nomad.VolumeRequest){access(single)}, asked: []func(*nomad.VolumeRequest){access(single)}, unmet: "allocation ID writes to it"},
		"one writer and a reader":  {has: single, before: []func(*nomad.VolumeRequest){access(single), readOnly}, asked: []func(*nomad.VolumeRequest){access(single)}},
		"a reader of one writer's": {has: single, before: []func(*nomad.VolumeRequest){access(single)}, asked: []func(*nomad.VolumeRequest){access(single), readOnly}},
		"many writers":             {has: multi, before: []func(*nomad.VolumeRequest){access(multi)}, asked: []func(*nomad.VolumeRequest){access(multi)}},
		"sticky":                   {has: writer, asked: []func(*nomad.VolumeRequest){sticky}},
	} {
		t.Run(name, func(t *testing.T) {
			n := withVolumes(t, "")
			n.create("data", func(v *nomad.HostVolume) {
				v.RequestedCapabilities = []*nomad.HostVolumeCapability{{AccessMode: nomad.HostVolumeAccessMode(c.has), AttachmentMode: "file-system"}}
			})
			id := ""
			if c.before != nil {
				run(t, n.cp, testJob("before", "service", mounting("data", c.before...)))
				id = wanted(n.cp, "before")[0].ID
			}
			e := run(t, n.cp, testJob("db", "service", mounting("data", c.asked...)))
			if c.unmet == "" {
				require.Len(t, wanted(n.cp, "db"), 1)
				return
			}
			require.Equal(t, map[string]int{
				"missing compatible host volumes":                              1,
				`host volume "data": ` + strings.ReplaceAll(c.unmet, "ID", id): 1,
			}, e.FailedTGAllocs["g"].ConstraintFiltered)
		})
	}
}

// The only writer is the next one's predecessor, or it ends: either way there are never two.
func TestTheNextWriterFollowsTheFirst(t *testing.T) {
	n := withVolumes(t, "")
	const single = "single-node-single-writer"
	n.create("data", func(v *nomad.HostVolume) {
		v.RequestedCapabilities = []*nomad.HostVolumeCapability{{AccessMode: single, AttachmentMode: "file-system"}}
	})
	asked := mounting("data", access(single))
	run(t, n.cp, testJob("db", "service", asked, count(2)))
	list := wanted(n.cp, "db")
	require.Len(t, list, 1, "two of a group are two writers")
	report(t, n.cp, list[0], structs.ClientRunning)
	run(t, n.cp, testJob("db", "service", asked, user("nobody")))
	next := wanted(n.cp, "db")
	require.Len(t, next, 1)
	require.Equal(t, list[0].ID, next[0].PreviousAllocation, "which it waits for")
	run(t, n.cp, testJob("other", "service", asked))
	require.Empty(t, wanted(n.cp, "other"))
	_, err := n.cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "db"})
	require.NoError(t, err)
	require.Empty(t, wanted(n.cp, "other"))
	report(t, n.cp, list[0], structs.ClientComplete)
	report(t, n.cp, next[0], structs.ClientComplete)
	require.Len(t, wanted(n.cp, "other"), 1, "it waited until nobody writes")
}

func TestEachAllocationHasItsOwnVolume(t *testing.T) {
	n := withVolumes(t, "")
	n.create("data[0]")
	second := n.create("data[2]")
	e := run(t, n.cp, testJob("db", "service", count(3), mounting("data", func(r *nomad.VolumeRequest) { r.PerAlloc = true })))
	var names []string
	for _, a := range wanted(n.cp, "db") {
		names = append(names, a.Name)
	}
	require.ElementsMatch(t, []string{"db.g[0]", "db.g[2]"}, names)
	require.Equal(t, map[string]int{"g": 1}, e.QueuedAllocations)
	users := n.cp.VolumeAllocations(second.ID)
	require.Len(t, users, 1)
	require.Equal(t, "db.g[2]", users[0].Name)
	n.create("data[1]")
	require.Len(t, wanted(n.cp, "db"), 3)
}

func TestAStickyVolumeIsClaimed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	n := withVolumes(t, path)
	v := n.create("data")
	run(t, n.cp, testJob("db", "batch", mounting("data", sticky)))
	run(t, n.cp, testJob("loose", "batch", mounting("data")))
	first := wanted(n.cp, "db")[0]
	claims := n.cp.VolumeClaims()
	require.Len(t, claims, 1)
	claim := *claims[0]
	require.Equal(t, []string{"default", "db", "g", first.ID, v.ID, "data"},
		[]string{claim.Namespace, claim.JobID, claim.TaskGroupName, claim.AllocID, claim.VolumeID, claim.VolumeName})

	report(t, n.cp, first, structs.ClientFailed)
	_, err := n.cp.EvaluateJob("default", "db", true)
	require.NoError(t, err)
	next := wanted(n.cp, "db")[0]
	claims = n.cp.VolumeClaims()
	require.Len(t, claims, 1)
	require.Equal(t, []string{claim.ID, next.ID}, []string{claims[0].ID, claims[0].AllocID})
	require.NoError(t, n.cp.Close())
	cp := open(t, path)
	require.Equal(t, claims, cp.VolumeClaims())
	require.Equal(t, nomad.HostVolumeStateReady, cp.HostVolume("default", v.ID).State)

	_, err = cp.DeleteVolumeClaim("other", claim.ID)
	require.ErrorIs(t, err, errdefs.NotFound)
	index, err := cp.DeleteVolumeClaim("default", claim.ID)
	require.NoError(t, err)
	require.Equal(t, cp.Index(TableVolumeClaims), index)
	require.Empty(t, cp.VolumeClaims())
}

// Two nodes may have volumes of one name: a group goes back to the one that it has claimed.
func TestAClaimSendsAGroupToItsVolume(t *testing.T) {
	n := withVolumes(t, "")
	v := n.create("data")
	run(t, n.cp, testJob("db", "batch", mounting("data", sticky)))
	first := wanted(n.cp, "db")[0]
	elsewhere := &nomad.HostVolume{
		ID: "other", Name: "data", Namespace: "default", NodeID: "22222222-2222-2222-2222-222222222222", State: nomad.HostVolumeStateReady,
		RequestedCapabilities: v.RequestedCapabilities,
	}
	require.NoError(t, n.cp.write(func(t *tx) error { t.putVolume(elsewhere); return nil }))
	other := testNode()
	other.ID, other.Name = elsewhere.NodeID, "there"
	other.HostVolumes = []structs.HostVolume{{Name: "data", ID: "other"}}
	registerNode(t, n.cp, other)
	_, err := n.cp.SetEligibility(n.node.ID, structs.NodeIneligible)
	require.NoError(t, err)
	_, err = n.cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "db"})
	require.NoError(t, err)
	report(t, n.cp, first, structs.ClientComplete)
	run(t, n.cp, testJob("db", "batch", mounting("data", sticky)))
	require.Empty(t, wanted(n.cp, "db"))
	_, err = n.cp.DeleteVolumeClaim("default", n.cp.VolumeClaims()[0].ID)
	require.NoError(t, err)
	list := wanted(n.cp, "db")
	require.Len(t, list, 1, "another volume will do now")
	require.Equal(t, other.ID, list[0].NodeID)
}

func TestClaimsEndWithTheirJobOrVolume(t *testing.T) {
	n := withVolumes(t, "")
	v := n.create("data")
	for _, end := range []func(){
		func() {
			_, err := n.cp.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "db", Purge: true})
			require.NoError(t, err)
		},
		func() {
			report(t, n.cp, wanted(n.cp, "db")[0], structs.ClientComplete)
			_, err := n.cp.DeleteHostVolume(t.Context(), "default", v.ID, false)
			require.NoError(t, err)
		},
	} {
		run(t, n.cp, testJob("db", "batch", mounting("data", sticky)))
		require.Len(t, n.cp.VolumeClaims(), 1)
		end()
		require.Empty(t, n.cp.VolumeClaims())
		for _, a := range n.cp.JobAllocations("default", "db") {
			report(t, n.cp, a, structs.ClientComplete)
		}
	}
}

// Who makes volumes at once gets one of a name, and each volume has one call at a time.
func TestVolumesAreMadeByManyAtOnce(t *testing.T) {
	n := withVolumes(t, "")
	var mu sync.Mutex
	inside := map[string]bool{}
	n.during = func(v *nomad.HostVolume) error {
		mu.Lock()
		twice := inside[v.ID]
		inside[v.ID] = true
		mu.Unlock()
		if twice {
			return errors.New("two at once")
		}
		mu.Lock()
		defer mu.Unlock()
		delete(inside, v.ID)
		return nil
	}
	made := make(chan *nomad.HostVolume, 20)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			v, err := n.cp.CreateHostVolume(t.Context(), hostVolume("data"))
			if err == nil {
				made <- v
			} else if !strings.Contains(err.Error(), "already exists") {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Len(t, made, 1)
	v := <-made
	for range 20 {
		all.Go(func() {
			if _, err := n.cp.CreateHostVolume(t.Context(), hostVolume("data", func(c *nomad.HostVolume) { c.ID = v.ID })); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Len(t, n.cp.HostVolumes(), 1)
	require.False(t, n.cp.volumeHeld(v.ID))
}

// What is being made is pending, whatever its node tells meanwhile, and what it becomes is tried
// by who waits.
func TestAVolumeThatIsMadeIsNotThereBefore(t *testing.T) {
	n := withVolumes(t, "")
	n.during = func(v *nomad.HostVolume) error {
		n.change(func(next *structs.Node) { next.Meta = map[string]string{"changed": v.ID} })
		require.Equal(t, nomad.HostVolumeStatePending, n.cp.HostVolume("default", v.ID).State)
		return nil
	}
	v := n.create("data")
	require.Equal(t, nomad.HostVolumeStateReady, v.State)
	run(t, n.cp, testJob("db", "service", mounting("data", access("single-node-multi-writer"))))
	require.Empty(t, wanted(n.cp, "db"))
	n.during = nil
	n.create("data", func(c *nomad.HostVolume) {
		c.ID = v.ID
		c.RequestedCapabilities = []*nomad.HostVolumeCapability{{AccessMode: "single-node-multi-writer", AttachmentMode: "file-system"}}
	})
	require.Len(t, wanted(n.cp, "db"), 1)
}
