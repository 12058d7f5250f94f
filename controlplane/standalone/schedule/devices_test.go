package schedule

import (
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// gpus are the devices of these tests' nodes.
func gpus() []*structs.DeviceGroup {
	return []*structs.DeviceGroup{
		{
			ID: structs.DeviceGroupID{Vendor: "amd", Type: "gpu", Name: "mi50"},
			Attributes: map[string]structs.Attribute{
				"memory": structs.IntAttribute(16384, "MiB"), "clock": structs.FloatAttribute(1.7, "GHz"), "driver_version": structs.StringAttribute("5.4.2"),
			},
			Devices: []structs.Device{{ID: "amd0", Health: structs.DeviceHealthy}},
		},
		{
			ID: structs.DeviceGroupID{Vendor: "nvidia", Type: "gpu", Name: "1080ti"},
			Attributes: map[string]structs.Attribute{
				"memory": structs.IntAttribute(11, "GiB"), "ecc": structs.BoolAttribute(false), "model": structs.StringAttribute("1080"),
			},
			Devices: []structs.Device{
				{ID: "nv0", Health: structs.DeviceHealthy}, {ID: "nv1", Health: structs.DeviceUnhealthy},
				{ID: "nv2", Health: structs.DeviceHealthy}, {ID: "nv3", Health: structs.DeviceUnconfirmed},
			},
		},
	}
}

func gpuNode(id string) *structs.Node {
	n := testNode(id)
	n.Devices = gpus()
	return n
}

func named(id string) func(*nomad.Job) { return func(j *nomad.Job) { j.ID = &id } }

func asks(devices ...*nomad.RequestedDevice) func(*nomad.Job) {
	return func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.Devices = devices }
}

func ask(name string, count uint64, constraints ...string) *nomad.RequestedDevice {
	d := &nomad.RequestedDevice{Name: name, Count: &count}
	for i := 0; i+2 < len(constraints); i += 3 {
		d.Constraints = append(d.Constraints, &nomad.Constraint{LTarget: constraints[i], Operand: constraints[i+1], RTarget: constraints[i+2]})
	}
	return d
}

// given are the devices of an allocation's task.
func given(a *Alloc) (ids []string) {
	for _, d := range a.Resources.Tasks["t"].Devices {
		for _, id := range d.DeviceIDs {
			ids = append(ids, d.Group().String()+" "+id)
		}
	}
	return ids
}

func TestATaskGetsHealthyDevicesOfOneGroup(t *testing.T) {
	for name, tt := range map[string]struct {
		ask  []*nomad.RequestedDevice
		want []string
	}{
		"by type, the first group":     {[]*nomad.RequestedDevice{ask("gpu", 1)}, []string{"amd/gpu/mi50 amd0"}},
		"by vendor":                    {[]*nomad.RequestedDevice{ask("nvidia/gpu", 1)}, []string{"nvidia/gpu/1080ti nv0"}},
		"by name, all healthy ones":    {[]*nomad.RequestedDevice{ask("nvidia/gpu/1080ti", 2)}, []string{"nvidia/gpu/1080ti nv0", "nvidia/gpu/1080ti nv2"}},
		"two need a group that has":    {[]*nomad.RequestedDevice{ask("gpu", 2)}, []string{"nvidia/gpu/1080ti nv0", "nvidia/gpu/1080ti nv2"}},
		"two blocks, different ones":   {[]*nomad.RequestedDevice{ask("gpu", 1), ask("gpu", 1)}, []string{"amd/gpu/mi50 amd0", "nvidia/gpu/1080ti nv0"}},
		"memory":                       {[]*nomad.RequestedDevice{ask("gpu", 1, "${device.attr.memory}", "<", "16 GiB")}, []string{"nvidia/gpu/1080ti nv0"}},
		"memory at least, other units": {[]*nomad.RequestedDevice{ask("gpu", 1, "${device.attr.memory}", ">=", "16GiB")}, []string{"amd/gpu/mi50 amd0"}},
		"number the other way round":   {[]*nomad.RequestedDevice{ask("gpu", 1, "12 GB", ">", "${device.attr.memory}")}, []string{"nvidia/gpu/1080ti nv0"}},
		"text that looks like numbers": {[]*nomad.RequestedDevice{ask("gpu", 1, "${device.attr.model}", "=", "1080")}, []string{"nvidia/gpu/1080ti nv0"}},
		"truth":                        {[]*nomad.RequestedDevice{ask("gpu", 1, "${device.attr.ecc}", "=", "false")}, []string{"nvidia/gpu/1080ti nv0"}},
		"is set":                       {[]*nomad.RequestedDevice{ask("gpu", 1, "${device.attr.ecc}", "is_set", "")}, []string{"nvidia/gpu/1080ti nv0"}},
		"version":                      {[]*nomad.RequestedDevice{ask("gpu", 1, "${device.attr.driver_version}", "version", ">= 5.0")}, []string{"amd/gpu/mi50 amd0"}},
		"vendor in a constraint":       {[]*nomad.RequestedDevice{ask("gpu", 1, "${device.vendor}", "!=", "amd")}, []string{"nvidia/gpu/1080ti nv0"}},
		"model":                        {[]*nomad.RequestedDevice{ask("gpu", 1, "${device.model}", "regexp", "^10")}, []string{"nvidia/gpu/1080ti nv0"}},
		"ids":                          {[]*nomad.RequestedDevice{ask("gpu", 1, "${device.ids}", "set_contains", "nv2")}, []string{"nvidia/gpu/1080ti nv2"}},
		"any of some ids":              {[]*nomad.RequestedDevice{ask("gpu", 1, "${device.ids}", "set_contains_any", "other,nv2")}, []string{"nvidia/gpu/1080ti nv2"}},
		"not that id":                  {[]*nomad.RequestedDevice{ask("nvidia/gpu", 1, "${device.ids}", "!=", "nv0")}, []string{"nvidia/gpu/1080ti nv2"}},
		"affinity": {[]*nomad.RequestedDevice{{Name: "gpu", Affinities: []*nomad.Affinity{
			{LTarget: "${device.attr.memory}", Operand: "<", RTarget: "12 GiB", Weight: new(int8(50))},
		}}}, []string{"nvidia/gpu/1080ti nv0"}},
		"affinity against": {[]*nomad.RequestedDevice{{Name: "gpu", Affinities: []*nomad.Affinity{
			{LTarget: "${device.vendor}", Operand: "=", RTarget: "amd", Weight: new(int8(-100))},
		}}}, []string{"nvidia/gpu/1080ti nv0"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, gpuNode("n1"))
			res := c.run(testJob("service", asks(tt.ask...)))
			require.Len(t, res.Place, 1, "%+v", res.Failed["g"])
			require.Equal(t, tt.want, given(res.Place[0]))
		})
	}
}

func TestThePlacementMetricsGiveTheReasonWhyNoDeviceFits(t *testing.T) {
	for name, tt := range map[string]struct {
		ask                 *nomad.RequestedDevice
		filtered, exhausted string
	}{
		"no such type":       {ask("fpga", 1), `device fpga: no such device meets its constraints`, ""},
		"no such name":       {ask("nvidia/gpu/3090", 1), `device nvidia/gpu/3090: no such device meets its constraints`, ""},
		"constraint":         {ask("gpu", 1, "${device.attr.memory}", ">", "64 GiB"), `device gpu: no such device meets its constraints`, ""},
		"other dimension":    {ask("gpu", 1, "${device.attr.memory}", ">", "1 MHz"), `device gpu: no such device meets its constraints`, ""},
		"without a unit":     {ask("gpu", 1, "${device.attr.memory}", ">", "1"), `device gpu: no such device meets its constraints`, ""},
		"unknown both":       {ask("gpu", 1, "${device.attr.cores}", "=", "${device.attr.other}"), `device gpu: no such device meets its constraints`, ""},
		"no such ID":         {ask("gpu", 1, "${device.ids}", "set_contains_all", "nv9"), `device gpu: no such device meets its constraints`, ""},
		"unknown attribute":  {ask("gpu", 1, "${device.attr.cores}", ">", "1"), `device gpu: no such device meets its constraints`, ""},
		"not device's":       {ask("gpu", 1, "${attr.kernel.name}", "=", "linux"), `device gpu: no such device meets its constraints`, ""},
		"too many":           {ask("nvidia/gpu", 3), `device nvidia/gpu: 3 asked for, 2 healthy`, ""},
		"not across groups":  {ask("gpu", 3), `device gpu: 3 asked for, 2 healthy`, ""},
		"unhealthy one":      {ask("gpu", 1, "${device.ids}", "set_contains", "nv1"), `device gpu: 1 asked for, 0 healthy`, ""},
		"taken by another":   {ask("amd/gpu", 1), "", `devices: amd/gpu: 1 asked for, 0 free`},
		"named one is taken": {ask("gpu", 1, "${device.ids}", "set_contains", "amd0"), "", `devices: gpu: 1 asked for, 0 free`},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, gpuNode("n1"))
			require.Len(t, c.run(testJob("service", named("first"), asks(ask("amd/gpu", 1)))).Place, 1)
			res := c.run(testJob("service", asks(tt.ask)))
			require.Empty(t, res.Place)
			require.Equal(t, 1, res.Queued["g"])
			m := res.Failed["g"]
			if tt.filtered != "" {
				require.Equal(t, map[string]int{"missing devices": 1, tt.filtered: 1}, m.ConstraintFiltered)
			} else {
				require.Equal(t, map[string]int{tt.exhausted: 1}, m.DimensionExhausted)
			}
		})
	}
}

func TestADeviceIsItsTasksUntilTheAllocationHasEnded(t *testing.T) {
	c := newCluster(t, gpuNode("n1"))
	first := c.run(testJob("service", named("first"), asks(ask("amd/gpu", 1)))).Place[0]
	waiting := testJob("service", asks(ask("amd/gpu", 1)))
	require.Empty(t, c.run(waiting).Place)
	c.run(testJob("service", named("first"), atVersion(2), count1(0), asks(ask("amd/gpu", 1))))
	require.Empty(t, c.run(waiting).Place, "it was told to stop, and still runs")
	c.change(first.ID).ClientStatus = structs.ClientComplete
	res := c.run(waiting)
	require.Equal(t, []string{"amd/gpu/mi50 amd0"}, given(res.Place[0]))
}

func TestASuccessorGetsTheDeviceOfItsPredecessor(t *testing.T) {
	c := newCluster(t, gpuNode("n1"))
	old := c.run(testJob("service", asks(ask("amd/gpu", 1)))).Place[0]
	res := c.run(testJob("service", atVersion(2), asks(ask("amd/gpu", 1)), func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{"NEW": "1"} }))
	require.Len(t, res.Place, 1, "it waits for the end of the old one, whose device it gets")
	require.Equal(t, given(old), given(res.Place[0]))
}

func TestARunningTaskIsNotStoppedBecauseItsDeviceIsUnhealthy(t *testing.T) {
	n := gpuNode("n1")
	c := newCluster(t, n)
	c.run(testJob("service", asks(ask("amd/gpu", 1))))
	n.Devices[0].Devices[0].Health = structs.DeviceUnconfirmed
	for _, devices := range [][]*structs.DeviceGroup{n.Devices, nil} {
		n.Devices = devices
		for _, version := range []uint64{1, 2} {
			res := c.run(testJob("service", atVersion(version), asks(ask("amd/gpu", 1))))
			require.Empty(t, res.Stop)
			require.Empty(t, res.Place)
		}
	}
}

func TestDevicesOfSeveralTasksAreDifferentOnes(t *testing.T) {
	c := newCluster(t, gpuNode("n1"))
	job := testJob("service", count1(2), func(j *nomad.Job) {
		g := j.TaskGroups[0]
		g.Tasks[0].Resources.Devices = []*nomad.RequestedDevice{ask("gpu", 1)}
		g.Tasks = append(g.Tasks, &nomad.Task{Name: "u", Driver: "mock", Resources: &nomad.Resources{
			CPU: new(100), MemoryMB: new(100), Devices: []*nomad.RequestedDevice{ask("gpu", 1)},
		}})
	})
	res := c.run(job)
	require.Len(t, res.Place, 1, "three devices are healthy, each allocation needs two")
	require.Equal(t, 1, res.Queued["g"])
	devices := res.Place[0].Resources.Tasks
	require.Equal(t, []string{"amd0"}, devices["t"].Devices[0].DeviceIDs)
	require.Equal(t, []string{"nv0"}, devices["u"].Devices[0].DeviceIDs)
}
