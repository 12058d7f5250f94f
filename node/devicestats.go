package node

import (
	"cmp"
	"maps"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// deviceStats are the newest figures of the devices that a task was given, one entry a
// group, sorted. What has none is left out. Its cost is that of the devices given.
func (n *Node) deviceStats(given []structs.AllocatedDevice) []*nomad.DeviceGroupStats {
	all := []*nomad.DeviceGroupStats{}
	if n.cfg.Devices == nil {
		return all
	}
	for _, d := range given {
		g, err := n.cfg.Devices.DeviceStats(d)
		if err != nil {
			n.logger.Debug("no statistics of a device", "error", err)
			continue
		}
		if len(g.Devices) > 0 {
			all = mergeDeviceStats(all, []*nomad.DeviceGroupStats{renderDeviceStats(g)})
		}
	}
	return all
}

// hostDeviceStats are the newest figures of all devices.
func (n *Node) hostDeviceStats() []*nomad.DeviceGroupStats {
	all := []*nomad.DeviceGroupStats{}
	if n.cfg.Devices == nil {
		return all
	}
	for _, g := range n.cfg.Devices.AllStats() {
		all = append(all, renderDeviceStats(g))
	}
	return all
}

// mergeDeviceStats joins figures so that each group is there once, sorted: one that two
// tasks use is still one group.
func mergeDeviceStats(all, more []*nomad.DeviceGroupStats) []*nomad.DeviceGroupStats {
	for _, g := range more {
		i, known := slices.BinarySearchFunc(all, g, compareDeviceStats)
		if !known {
			c := *g
			c.InstanceStats = maps.Clone(g.InstanceStats)
			all = slices.Insert(all, i, &c)
			continue
		}
		maps.Copy(all[i].InstanceStats, g.InstanceStats)
	}
	return all
}

func compareDeviceStats(a, b *nomad.DeviceGroupStats) int {
	return cmp.Or(cmp.Compare(a.Vendor, b.Vendor), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
}

// renderDeviceStats renders a group's figures in Nomad's shape.
func renderDeviceStats(g *structs.DeviceGroupStats) *nomad.DeviceGroupStats {
	out := &nomad.DeviceGroupStats{
		Vendor: g.ID.Vendor, Type: g.ID.Type, Name: g.ID.Name,
		InstanceStats: make(map[string]*nomad.DeviceStats, len(g.Devices)),
	}
	for id, s := range g.Devices {
		out.InstanceStats[id] = &nomad.DeviceStats{Summary: renderStat(s.Summary), Stats: renderStats(s.Stats), Timestamp: s.Time}
	}
	return out
}

func renderStats(o *structs.StatObject) *nomad.StatObject {
	if o == nil {
		return nil
	}
	out := &nomad.StatObject{Nested: make(map[string]*nomad.StatObject, len(o.Nested)), Attributes: make(map[string]*nomad.StatValue, len(o.Attributes))}
	for name, nested := range o.Nested {
		out.Nested[name] = renderStats(nested)
	}
	for name, v := range o.Attributes {
		out.Attributes[name] = renderStat(v)
	}
	return out
}

func renderStat(v *structs.StatValue) *nomad.StatValue {
	if v == nil {
		return nil
	}
	return &nomad.StatValue{
		FloatNumeratorVal: v.Float, FloatDenominatorVal: v.FloatDenominator,
		IntNumeratorVal: v.Int, IntDenominatorVal: v.IntDenominator,
		StringVal: v.String, BoolVal: v.Bool, Unit: v.Unit, Desc: v.Description,
	}
}
