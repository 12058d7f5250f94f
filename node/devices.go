package node

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/structs"
)

// UpdateDevices takes all devices that the node has now. It does not block.
func (n *Node) UpdateDevices(groups []*structs.DeviceGroup) { n.self.updateDevices(groups) }

// updateDevices merges devices.
func (s *self) updateDevices(groups []*structs.DeviceGroup) {
	s.update(func(next *structs.Node) bool { return mergeDevices(next, groups) })
}

// mergeDevices puts devices into a node and reports whether they are others. Of each
// group that has changed there is an event.
func mergeDevices(n *structs.Node, groups []*structs.DeviceGroup) bool {
	if slices.EqualFunc(n.Devices, groups, (*structs.DeviceGroup).Equal) {
		return false
	}
	before := map[structs.DeviceGroupID]string{}
	for _, g := range n.Devices {
		before[g.ID] = healths(g)
	}
	n.Devices = groups
	for _, g := range groups {
		now := healths(g)
		if before[g.ID] != now {
			addDeviceEvent(n, g.ID, now)
		}
		delete(before, g.ID)
	}
	gone := make([]structs.DeviceGroupID, 0, len(before))
	for id := range before {
		gone = append(gone, id)
	}
	slices.SortFunc(gone, func(a, b structs.DeviceGroupID) int { return cmp.Compare(a.String(), b.String()) })
	for _, id := range gone {
		addDeviceEvent(n, id, "removed")
	}
	return true
}

// healths counts a group's devices by health: "3 healthy, 1 unhealthy".
func healths(g *structs.DeviceGroup) string {
	counts := map[structs.DeviceHealth]int{}
	for _, d := range g.Devices {
		counts[d.Health]++
	}
	var parts []string
	for _, h := range []structs.DeviceHealth{structs.DeviceHealthy, structs.DeviceUnhealthy, structs.DeviceUnconfirmed} {
		if counts[h] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[h], h))
		}
	}
	return strings.Join(parts, ", ")
}

func addDeviceEvent(n *structs.Node, group structs.DeviceGroupID, what string) {
	addNodeEvent(n, structs.NodeEvent{
		Time: time.Now().UTC(), Subsystem: "Device", Message: fmt.Sprintf("Devices %s: %s", group, what),
		Details: map[string]string{"device": group.String()},
	})
}
