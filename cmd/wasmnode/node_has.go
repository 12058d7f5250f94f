package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// nodesThatTake returns the nodes that allocations could be placed on. What they have only
// adds to a reason: when they cannot be asked, there are none.
func nodesThatTake(client *nomad.Client) (nodes []*nomad.Node) {
	stubs, _, err := client.Nodes().List(nil)
	if err != nil {
		return nil
	}
	for _, s := range stubs {
		if s.Status != nomad.NodeStatusReady || s.SchedulingEligibility != nomad.NodeSchedulingEligible {
			continue
		}
		if n, _, err := client.Nodes().Info(s.ID, nil); err == nil {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// maxNodesNamed is of how many nodes it is told what they have.
const maxNodesNamed = 3

// has says what each node has of something, as the end of a sentence; empty: nothing is
// known.
func has(nodes []*nomad.Node, of func(*nomad.Node) (value string, ok bool)) string {
	return each(nodes, func(n *nomad.Node) (string, bool) {
		value, ok := of(n)
		return "has " + value, ok
	})
}

// places says where the nodes are, for a job that wants to be where none of them is.
func places(nodes []*nomad.Node) string {
	return each(nodes, func(n *nomad.Node) (string, bool) {
		return fmt.Sprintf("is in datacenter %q and node pool %q", n.Datacenter, n.NodePool), true
	})
}

// each says something of each node, as has does.
func each(nodes []*nomad.Node, say func(*nomad.Node) (text string, ok bool)) string {
	var parts []string
	for _, n := range nodes {
		if text, ok := say(n); ok {
			parts = append(parts, fmt.Sprintf("node %q %s", n.Name, text))
		}
	}
	if more := len(parts) - maxNodesNamed; more > 0 {
		parts = append(parts[:maxNodesNamed], fmt.Sprintf("and %d more", more))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// missingDrivers is how a placement says that a node lacks a driver of the job.
const missingDrivers = "missing drivers"

// healthyDrivers are a node's drivers that tasks can use.
func healthyDrivers(n *nomad.Node) (names string, ok bool) {
	var healthy []string
	for _, name := range slices.Sorted(maps.Keys(n.Drivers)) {
		if n.Drivers[name].Healthy {
			healthy = append(healthy, name)
		}
	}
	return cmp.Or(strings.Join(healthy, ", "), "none that is healthy"), true
}

// hasForConstraint says what the nodes have for what a constraint compares: the first
// reference in its text.
func hasForConstraint(nodes []*nomad.Node, constraint string) string {
	if constraint == missingDrivers {
		return has(nodes, healthyDrivers)
	}
	_, after, ok := strings.Cut(constraint, "${")
	target, _, closed := strings.Cut(after, "}")
	if !ok || !closed {
		return ""
	}
	return has(nodes, func(n *nomad.Node) (string, bool) {
		value, ok := targetOn(n, target)
		if !ok {
			return "no " + target, true
		}
		return fmt.Sprintf("%q", value), true
	})
}

// targetOn is what a reference of a constraint is on a node.
func targetOn(n *nomad.Node, target string) (value string, ok bool) {
	if key, is := strings.CutPrefix(target, "attr."); is {
		value, ok = n.Attributes[key]
		return value, ok
	}
	if key, is := strings.CutPrefix(target, "meta."); is {
		value, ok = n.Meta[key]
		return value, ok
	}
	value, ok = map[string]string{
		"node.unique.id": n.ID, "node.unique.name": n.Name, "node.datacenter": n.Datacenter,
		"node.class": n.NodeClass, "node.pool": n.NodePool,
	}[target]
	return value, ok
}

// hasOfDimension says how much the nodes have, for allocations, of a resource.
func hasOfDimension(nodes []*nomad.Node, dimension string) string {
	return has(nodes, func(n *nomad.Node) (string, bool) {
		r, kept := n.NodeResources, n.ReservedResources
		if r == nil || kept == nil || !slices.Contains([]string{"cpu", "memory", "disk", "cores"}, dimension) {
			return "", false
		}
		return map[string]string{
			"cpu":    fmt.Sprintf("%d MHz", r.Cpu.CpuShares-int64(kept.Cpu.CpuShares)),
			"memory": fmt.Sprintf("%d MB", r.Memory.MemoryMB-int64(kept.Memory.MemoryMB)),
			"disk":   fmt.Sprintf("%d MB", r.Disk.DiskMB-int64(kept.Disk.DiskMB)),
			"cores":  fmt.Sprintf("%d cores", r.Cpu.TotalCpuCores),
		}[dimension], true
	})
}
