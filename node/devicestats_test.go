package node

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/structs"
)

// measured has figures of some devices; it counts what it is asked.
type measured struct {
	task.Devices
	mu    sync.Mutex
	asked int
	stats map[structs.DeviceGroupID]*structs.DeviceGroupStats
}

func (m *measured) AllStats() (all []*structs.DeviceGroupStats) {
	for _, g := range m.stats {
		all = append(all, g.Copy())
	}
	return all
}

func (m *measured) DeviceStats(d structs.AllocatedDevice) (*structs.DeviceGroupStats, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.stats[d.Group()]
	if g == nil {
		return nil, abi.NewError(abi.NotFound, "unknown")
	}
	out := &structs.DeviceGroupStats{ID: g.ID, Devices: map[string]*structs.DeviceStats{}}
	for _, id := range d.DeviceIDs {
		m.asked++
		if s := g.Devices[id]; s != nil {
			out.Devices[id] = s.Copy()
		}
	}
	return out, nil
}

func newMeasured(devices int) *measured {
	id := structs.DeviceGroupID{Vendor: "acme", Type: "gpu", Name: "x1"}
	g := &structs.DeviceGroupStats{ID: id, Devices: map[string]*structs.DeviceStats{}}
	for i := range devices {
		watts := int64(i)
		g.Devices[fmt.Sprint(i)] = &structs.DeviceStats{
			Summary: &structs.StatValue{Int: &watts, Unit: "W"}, Time: time.Unix(int64(i), 0),
			Stats: &structs.StatObject{Nested: map[string]*structs.StatObject{"power": {Attributes: map[string]*structs.StatValue{"now": {Int: &watts}}}}},
		}
	}
	return &measured{stats: map[structs.DeviceGroupID]*structs.DeviceGroupStats{id: g}}
}

func x1(ids ...string) structs.AllocatedDevice {
	return structs.AllocatedDevice{Vendor: "acme", Type: "gpu", Name: "x1", DeviceIDs: ids}
}

func TestATasksDeviceStatsAreThoseOfTheDevicesThatItWasGiven(t *testing.T) {
	n := &Node{logger: hclog.NewNullLogger(), cfg: Config{Devices: newMeasured(3)}}
	all := n.deviceStats([]structs.AllocatedDevice{x1("1", "gone"), {Vendor: "no", Type: "such", Name: "group", DeviceIDs: []string{"1"}}})
	require.Len(t, all, 1)
	require.Equal(t, x1().Group(), all[0].ID)
	require.Len(t, all[0].Devices, 1, "what has no figures is left out")
	require.Equal(t, time.Unix(1, 0), all[0].Devices["1"].Time)

	without := &Node{logger: hclog.NewNullLogger()}
	require.Empty(t, without.deviceStats([]structs.AllocatedDevice{x1("1")}))
}

// The cost of an allocation's figures is that of its own devices, however many the
// host has.
func BenchmarkDeviceStatsOfATask(b *testing.B) {
	for _, devices := range []int{10, 1_000} {
		b.Run(fmt.Sprintf("%d devices on the host", devices), func(b *testing.B) {
			n := &Node{logger: hclog.NewNullLogger(), cfg: Config{Devices: newMeasured(devices)}}
			given := []structs.AllocatedDevice{x1("3", "4")}
			for b.Loop() {
				n.deviceStats(given)
			}
		})
	}
}
