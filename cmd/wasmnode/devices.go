package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// deviceName is a device as people find it in job files: VENDOR/TYPE/NAME[ID].
func deviceName(vendor, kind, name, id string) string {
	return vendor + "/" + kind + "/" + name + "[" + id + "]"
}

// nodeDevices shows a node's devices, if it has any, and at length what their groups
// have in common.
func (m meta) nodeDevices(groups []*nomad.NodeDeviceResource, verbose bool) {
	if len(groups) == 0 {
		return
	}
	m.ui.Output("\nDevices")
	rows := [][]string{{"Device", "Healthy", "Message"}}
	for _, g := range groups {
		for _, d := range g.Instances {
			rows = append(rows, []string{deviceName(g.Vendor, g.Type, g.Name, d.ID), strconv.FormatBool(d.Healthy), d.HealthDescription})
		}
	}
	m.table(rows)
	if !verbose {
		return
	}
	for _, g := range groups {
		m.ui.Output("\nDevice Group Attributes of " + g.ID())
		var pairs [][2]string
		for _, name := range slices.Sorted(maps.Keys(g.Attributes)) {
			pairs = append(pairs, [2]string{name, g.Attributes[name].String()})
		}
		m.pairs(pairs)
	}
}

// taskDevices names the devices that a task was given.
func (m meta) taskDevices(given []*nomad.AllocatedDeviceResource) {
	if len(given) == 0 {
		return
	}
	m.ui.Output("\nDevices")
	for _, d := range given {
		for _, id := range d.DeviceIDs {
			m.ui.Output(deviceName(d.Vendor, d.Type, d.Name, id))
		}
	}
}

// deviceStats shows figures of devices: of each the summary, and at length
// all.
func (m meta) deviceStats(groups []*nomad.DeviceGroupStats, verbose bool) {
	if len(groups) == 0 {
		return
	}
	m.ui.Output("\nDevice Stats")
	var pairs [][2]string
	for _, g := range groups {
		for _, id := range slices.Sorted(maps.Keys(g.InstanceStats)) {
			s := g.InstanceStats[id]
			name := deviceName(g.Vendor, g.Type, g.Name, id)
			pairs = append(pairs, [2]string{name, s.Summary.String()})
			if verbose {
				pairs = append(pairs, figures(s.Stats, nil)...)
			}
		}
	}
	m.pairs(pairs)
}

// figures lists an object's figures by their paths, sorted.
func figures(o *nomad.StatObject, path []string) (pairs [][2]string) {
	if o == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(o.Attributes)) {
		pairs = append(pairs, [2]string{"  " + strings.Join(append(path, name), "."), o.Attributes[name].String()})
	}
	for _, name := range slices.Sorted(maps.Keys(o.Nested)) {
		pairs = append(pairs, figures(o.Nested[name], append(slices.Clone(path), name))...)
	}
	return pairs
}
