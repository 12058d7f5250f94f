package node

import (
	"context"
	"maps"
	"reflect"
	"time"

	"github.com/wasmnode/wasmnode/structs"
)

// fingerprintInterval is how often the machine is looked at again.
const fingerprintInterval = time.Minute

// diskStep is by what part of the disk the free room has to change before the control plane
// is told: it changes with every log line.
const diskStep = 0.01

// fingerprintLoop looks at the machine now and then.
func (n *Node) fingerprintLoop(ctx context.Context) {
	tick := time.NewTicker(fingerprintInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			n.Refingerprint()
		}
	}
}

// Refingerprint looks at the machine again: memory, disk, address and system. When something
// is another, the control plane is told, which tries again then to place what had no place.
func (n *Node) Refingerprint() {
	n.self.update(func(next *structs.Node) bool {
		now := &structs.Node{Attributes: map[string]string{}, HostNetworks: next.HostNetworks}
		if err := n.machine(now, n.cfg.AllocsDir); err != nil {
			n.logger.Warn("the machine could not be looked at again, and is taken to be as it was", "error", err)
			return false
		}
		fingerprintNetworks(now, n.cfg.Networks)
		before := *next
		next.Attributes = maps.Clone(next.Attributes)
		for key := range n.measured {
			delete(next.Attributes, key)
		}
		n.measured = map[string]bool{}
		for key := range now.Attributes {
			n.measured[key] = true
		}
		maps.Copy(next.Attributes, now.Attributes)
		next.Resources.MemoryMB, next.Resources.DiskMB = now.Resources.MemoryMB, now.Resources.DiskMB
		next.HostNetworks, next.NetworkModes = now.HostNetworks, now.NetworkModes
		changed := !reflect.DeepEqual(next.HostNetworks, before.HostNetworks) || !maps.Equal(next.NetworkModes, before.NetworkModes) || next.Resources.MemoryMB != before.Resources.MemoryMB ||
			diskChanged(before.Resources.DiskMB, next.Resources.DiskMB) || !sameMachine(before.Attributes, next.Attributes)
		if changed {
			n.logger.Info("the machine has changed", "memory_mb", next.Resources.MemoryMB, "disk_mb", next.Resources.DiskMB)
		}
		return changed
	})
}

// sameMachine reports whether attributes are the same, but for what changes all the time.
func sameMachine(a, b map[string]string) bool {
	x, y := maps.Clone(a), maps.Clone(b)
	delete(x, bytesFree)
	delete(y, bytesFree)
	return maps.Equal(x, y)
}

// diskChanged reports whether free room is worth telling: at a step, and when there is none
// any more or some again.
func diskChanged(before, now int) bool {
	return (before == 0) != (now == 0) || float64(max(before-now, now-before)) > diskStep*float64(max(before, now))
}
