package ui

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// pluginStatus is a plugin file, as the API tells it.
type pluginStatus struct {
	Name, Type, Version, State, Reason, WouldGrant, Digest, SignedBy, File string
	CapabilitiesImported, CapabilitiesGranted                              []string
	Since                                                                  time.Time
	Stats                                                                  struct {
		Calls, Denied, OutOfTime, OutOfMemory, MemoryBytes, Instances uint64
		Faults                                                        map[string]uint64
		NotGranted                                                    []string
		GuestTime                                                     time.Duration
		AtRest, AtWork                                                int
	}
}

// Base is the file's own name.
func (p pluginStatus) Base() string { return p.File[strings.LastIndexByte(p.File, '/')+1:] }

// Missing are the capabilities that it imports and was not granted.
func (p pluginStatus) Missing() (names []string) {
	for _, c := range p.CapabilitiesImported {
		if !slices.Contains(p.CapabilitiesGranted, c) {
			names = append(names, c)
		}
	}
	return names
}

func (s *site) plugins(a *asker) (*view, error) {
	var all []pluginStatus
	if _, err := a.get(&all, path("agent", "plugins"), nil); err != nil {
		return nil, err
	}
	return &view{template: "plugins", Title: "Plugins", Section: "plugins", Poll: poll, Body: all, JSON: a.asked}, nil
}

// deviceLine is one device.
type deviceLine struct {
	Group, ID, Health string
	Healthy           bool
	Summary           string // its most telling figure, and what it is
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
				}
				body.Devices = append(body.Devices, line)
			}
		}
	}
	return &view{template: "devices", Title: "Devices", Section: "devices", Poll: poll, Body: body, JSON: a.asked}, nil
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
	return &view{
		template: "node", Title: cmp.Or(body.Name, body.ID), Section: "node", Poll: poll, Body: body, JSON: a.asked,
	}, nil
}
