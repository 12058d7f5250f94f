package ui

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// deviceLine is one device.
type deviceLine struct {
	Group, ID, Health string
	Healthy           bool
	Summary           string // its most telling figure, and what it is
	// Line is that figure before, where it is a number.
	Line *spark
}

func (s *site) devices(a *asker) (*view, error) {
	var n nomad.Node
	if _, err := a.get(&n, path("node", s.NodeID), nil); err != nil {
		return nil, err
	}
	var stats nomad.HostStats
	body := struct {
		Devices []deviceLine
		Problem string
	}{}
	body.Problem = a.try(&stats, path("client", "stats"), nil)
	figures := map[string]*nomad.DeviceStats{}
	for _, g := range stats.DeviceStats {
		for id, device := range g.InstanceStats {
			figures[groupName(g.Vendor, g.Type, g.Name)+"/"+id] = device
		}
	}
	if n.NodeResources != nil {
		for _, g := range n.NodeResources.Devices {
			group := groupName(g.Vendor, g.Type, g.Name)
			for _, d := range g.Instances {
				line := deviceLine{Group: group, ID: d.ID, Healthy: d.Healthy, Health: d.HealthDescription}
				if f := figures[group+"/"+d.ID]; f != nil && f.Summary != nil {
					line.Summary = strings.TrimSpace(f.Summary.String() + " " + f.Summary.Desc)
					before := s.add(a, "device "+group+"/"+d.ID, numeral(f.Summary), math.NaN())
					line.Line = sparkOf(before, f.Summary.Unit, first)
				}
				body.Devices = append(body.Devices, line)
			}
		}
	}
	return &view{template: "devices", Title: "Devices", Section: "devices", Poll: poll, Body: body, JSON: a.asked}, nil
}

// numeral is a device's figure, where it is a number.
func numeral(v *nomad.StatValue) float64 {
	switch {
	case v.FloatNumeratorVal != nil:
		return *v.FloatNumeratorVal
	case v.IntNumeratorVal != nil:
		return float64(*v.IntNumeratorVal)
	}
	return math.NaN()
}

func groupName(vendor, kind, name string) string { return vendor + "/" + kind + "/" + name }

// pair is a name and what it stands for.
type pair struct{ Name, Value string }

func sortedPairs(m map[string]string) (all []pair) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		all = append(all, pair{name, m[name]})
	}
	return all
}

// nodeBody is what the page of the node shows.
type nodeBody struct {
	*nomad.Node
	Attributes, Meta []pair
	DriverNames      []string
	Host             *nomad.HostStats
	HostProblem      string
	// AgentMemory and SupervisorMemory are what these processes have, in bytes; 0: it is not told.
	AgentMemory, SupervisorMemory uint64
	// AgentLine and SupervisorLine are that before.
	AgentLine, SupervisorLine *spark
}

func (s *site) node(a *asker) (*view, error) {
	body := &nodeBody{}
	if _, err := a.get(&body.Node, path("node", s.NodeID), nil); err != nil {
		return nil, err
	}
	body.Attributes, body.Meta = sortedPairs(body.Node.Attributes), sortedPairs(body.Node.Meta)
	body.DriverNames = slices.Sorted(maps.Keys(body.Drivers))
	body.HostProblem = a.try(&body.Host, path("client", "stats"), nil)
	var metrics struct {
		Gauges []struct {
			Name  string
			Value float64
		}
	}
	a.try(&metrics, path("metrics"), nil)
	for _, g := range metrics.Gauges {
		switch g.Name {
		case "process_resident_memory_bytes":
			body.AgentMemory = uint64(g.Value)
		case "wasmnode_supervisor_resident_memory_bytes":
			body.SupervisorMemory = uint64(g.Value)
		}
	}
	before := s.add(a, "node", mebibytes(body.AgentMemory), mebibytes(body.SupervisorMemory))
	body.AgentLine, body.SupervisorLine = sparkOf(before, "MiB", first), sparkOf(before, "MiB", second)
	return &view{
		template: "node", Title: cmp.Or(body.Name, body.ID), Section: "node", Poll: poll, Body: body, JSON: a.asked,
	}, nil
}

// mebibytes is a number of bytes to be drawn; none is one that is not known.
func mebibytes(n uint64) float64 {
	if n == 0 {
		return math.NaN()
	}
	return float64(n) / (1 << 20)
}
