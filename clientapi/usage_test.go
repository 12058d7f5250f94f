package clientapi

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// gpus are the figures of some devices of one group.
func gpus(ids ...int) *structs.DeviceGroupStats {
	g := &structs.DeviceGroupStats{ID: structs.DeviceGroupID{Vendor: "acme", Type: "gpu", Name: "x1"}, Devices: map[string]*structs.DeviceStats{}}
	for _, id := range ids {
		watts := int64(id)
		g.Devices[fmt.Sprint(id)] = &structs.DeviceStats{
			Summary: &structs.StatValue{Int: &watts, Unit: "W"}, Time: time.Unix(int64(id), 0),
			Stats: &structs.StatObject{Nested: map[string]*structs.StatObject{"power": {Attributes: map[string]*structs.StatValue{"now": {Int: &watts}}}}},
		}
	}
	return g
}

func TestDeviceStatsAreRenderedInNomadsShape(t *testing.T) {
	g := deviceGroupStats(gpus(0, 1))
	require.Equal(t, "acme", g.Vendor)
	one := g.InstanceStats["1"]
	require.Equal(t, "1 W", one.Summary.String())
	require.Equal(t, "1", one.Stats.Nested["power"].Attributes["now"].String())
	require.Equal(t, time.Unix(1, 0), one.Timestamp)
	require.Nil(t, one.Summary.FloatNumeratorVal, "unset is not zero")
	require.Equal(t, "0 W", g.InstanceStats["0"].Summary.String())
}

func TestAGroupThatTwoTasksUseIsOneGroup(t *testing.T) {
	out := AllocationUsage(&structs.AllocationUsage{Tasks: map[string]*structs.TaskUsage{
		"web": {Devices: []*structs.DeviceGroupStats{gpus(0), gpus(1)}}, "db": {Devices: []*structs.DeviceGroupStats{gpus(2)}},
	}})
	web, db := out.Tasks["web"].ResourceUsage.DeviceStats, out.Tasks["db"].ResourceUsage.DeviceStats
	require.Len(t, web, 1, "two blocks of one task are one group too")
	sum := out.ResourceUsage.DeviceStats
	require.Len(t, sum, 1)
	require.Len(t, sum[0].InstanceStats, 3)
	require.Len(t, web[0].InstanceStats, 2, "the task's own stay as they are")
	require.Len(t, db[0].InstanceStats, 1)
}

func TestOnlyWhatADriverMeasuredIsRenderedAsMeasured(t *testing.T) {
	rss, most := uint64(10), uint64(20)
	out := AllocationUsage(&structs.AllocationUsage{Tasks: map[string]*structs.TaskUsage{
		"a": {MemoryRSS: &rss, TimeNs: 7}, "b": {MemoryRSS: &rss, MemoryMax: &most}, "c": {},
	}})
	require.Equal(t, []string{"RSS", "Usage"}, out.Tasks["a"].ResourceUsage.MemoryStats.Measured)
	require.Empty(t, out.Tasks["c"].ResourceUsage.MemoryStats.Measured)
	require.ElementsMatch(t, []string{"RSS", "Usage", "Max Usage"}, out.ResourceUsage.MemoryStats.Measured)
	require.Equal(t, uint64(20), out.ResourceUsage.MemoryStats.RSS)
	require.Equal(t, uint64(20), out.ResourceUsage.MemoryStats.MaxUsage)
	require.Equal(t, int64(7), out.Tasks["a"].Timestamp)
}

func TestUnknownFactsOfTheMachineAreRenderedAsEmptyAndNotAsNull(t *testing.T) {
	got, err := json.Marshal(HostUsage(&structs.HostUsage{}, time.Unix(0, 5)))
	require.NoError(t, err)
	require.JSONEq(t, `{"Memory": {"Total": 0, "Available": 0, "Used": 0, "Free": 0}, "CPU": [], "DiskStats": [],
		"AllocDirStats": {"Device": "", "Mountpoint": "", "Size": 0, "Used": 0, "Available": 0, "UsedPercent": 0, "InodesUsedPercent": 0},
		"DeviceStats": [], "Uptime": 0, "CPUTicksConsumed": 0, "Timestamp": 5}`, string(got))
}

func TestWhatIsUsedOfEachProcessorIsTold(t *testing.T) {
	u := &structs.HostUsage{CPUMHz: 3000, Processors: []structs.ProcessorUsage{{Name: "cpu0", Idle: 50}, {Name: "cpu1", Idle: 75}}}
	out := HostUsage(u, time.Unix(0, 0))
	require.Equal(t, 50.0, out.CPU[0].TotalPercent)
	require.Equal(t, 2000.0, out.CPU[0].TotalTicks)
	require.Equal(t, 1000.0, out.CPU[1].TotalTicks)
}
