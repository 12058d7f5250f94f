package standalone

import (
	"cmp"
	"context"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
)

// HostVolumes returns all dynamic host volumes, in no order.
func (cp *ControlPlane) HostVolumes() []*nomad.HostVolume {
	return read(cp, func(t *tables) []*nomad.HostVolume {
		list := make([]*nomad.HostVolume, 0, len(t.volumes))
		for _, row := range t.volumes {
			list = append(list, row.Volume)
		}
		return list
	})
}

// HostVolume returns a dynamic host volume by its full ID.
func (cp *ControlPlane) HostVolume(namespace, id string) *nomad.HostVolume {
	return read(cp, func(t *tables) *nomad.HostVolume {
		if row := t.volumes[id]; row != nil && row.Volume.Namespace == namespace {
			return row.Volume
		}
		return nil
	})
}

// VolumeAllocations returns the allocations that mount a dynamic host volume and have not ended,
// oldest first.
func (cp *ControlPlane) VolumeAllocations(id string) []*structs.Allocation {
	return read(cp, func(t *tables) (users []*structs.Allocation) {
		row := t.volumes[id]
		if row == nil {
			return nil
		}
		for _, a := range t.liveByNode[row.Volume.NodeID] {
			if schedule.Mounts(a.Allocation, row.Volume) {
				users = append(users, a.Allocation)
			}
		}
		sortAllocations(users)
		return users
	})
}

// volumeUsers are the allocations that mount a volume and have not ended.
func (t *tx) volumeUsers(v *nomad.HostVolume) (users []*structs.Allocation) {
	for _, a := range t.liveByNode.in(v.NodeID) {
		if schedule.Mounts(a.Allocation, v) {
			users = append(users, a.Allocation)
		}
	}
	sortAllocations(users)
	return users
}

// volumesOn are the volumes of a node, by their IDs.
func (t *tx) volumesOn(nodeID string) (list []*structs.NodeVolume) {
	t.volumes.all(func(_ string, row *structs.NodeVolume) {
		if row.Volume.NodeID == nodeID {
			list = append(list, row)
		}
	})
	slices.SortFunc(list, func(a, b *structs.NodeVolume) int { return cmp.Compare(a.Volume.ID, b.Volume.ID) })
	return list
}

// putVolume stores a volume that is no other's yet.
func (t *tx) putVolume(v *nomad.HostVolume) {
	t.touched[TableHostVolumes] = t.at()
	v.CreateIndex, v.ModifyIndex = t.at(), t.at()
	if old := t.volumes.get(v.ID); old != nil {
		v.CreateIndex = old.Volume.CreateIndex
	}
	t.volumes.put(v.ID, &structs.NodeVolume{Volume: v})
}

// changeVolume stores a changed copy of a volume.
func (t *tx) changeVolume(row *structs.NodeVolume, change func(*nomad.HostVolume)) *nomad.HostVolume {
	v := *row.Volume
	change(&v)
	deleting := row.Deleting
	t.putVolume(&v)
	t.volumes.get(v.ID).Deleting = deleting
	return &v
}

// markDeleting remembers whether a volume is about to be removed. Nobody is told.
func (t *tx) markDeleting(row *structs.NodeVolume, deleting bool) {
	t.touched[TableHostVolumes] = t.at()
	t.volumes.put(row.Volume.ID, &structs.NodeVolume{Volume: row.Volume, Deleting: deleting})
}

// deleteVolume forgets a volume, and who was to have it again.
func (t *tx) deleteVolume(id string) {
	t.touched[TableHostVolumes] = t.at()
	t.volumes.delete(id)
	t.claims.all(func(claimID string, c *nomad.TaskGroupHostVolumeClaim) {
		if c.VolumeID == id {
			t.deleteClaim(claimID)
		}
	})
}

// deleteVolumesOf forgets the volumes of a node that is forgotten. What they have stays there.
func (t *tx) deleteVolumesOf(nodeID string) {
	for _, row := range t.volumesOn(nodeID) {
		t.deleteVolume(row.Volume.ID)
	}
}

// followVolumes has the states of volumes be what their node shows of them. What is being made
// is as it will be then.
func (t *tx) followVolumes(n *structs.Node) {
	for _, row := range t.volumesOn(n.ID) {
		has := n.HostVolume(row.Volume.Name)
		there := has != nil && has.ID == row.Volume.ID
		state := row.Volume.State
		switch {
		case n.Status == structs.NodeInitializing: // it has not looked yet
		case there && n.Status == structs.NodeReady:
			state = nomad.HostVolumeStateReady
		case t.cp.volumeHeld(row.Volume.ID):
		default:
			state = nomad.HostVolumeStateUnavailable
		}
		if pool := cmp.Or(n.Pool, nomad.NodePoolDefault); state != row.Volume.State || pool != row.Volume.NodePool {
			t.changeVolume(row, func(v *nomad.HostVolume) { v.State, v.NodePool = state, pool })
		}
	}
}

// NodeVolumes implements node.VolumeRegistry. What is being made or removed is left out: who
// does that has asked the node.
func (f ForNode) NodeVolumes(ctx context.Context, nodeID string) ([]structs.NodeVolume, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f.cp.Node(nodeID) == nil {
		return nil, nil
	}
	return read(f.cp, func(t *tables) (list []structs.NodeVolume) {
		for id, row := range t.volumes {
			if row.Volume.NodeID == nodeID && !f.cp.volumeHeld(id) {
				list = append(list, *row)
			}
		}
		return list
	}), nil
}

// VolumeMade implements node.VolumeRegistry.
func (f ForNode) VolumeMade(ctx context.Context, nodeID, id string, made structs.MadeVolume) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return f.cp.write(func(t *tx) error {
		row := t.volumes.get(id)
		if row == nil || row.Volume.NodeID != nodeID || row.Volume.HostPath == made.Path && row.Volume.CapacityBytes == made.CapacityBytes {
			return nil
		}
		if err := t.checkVolumePath(row.Volume, made.Path); err != nil {
			return err
		}
		t.changeVolume(row, func(v *nomad.HostVolume) { v.HostPath, v.CapacityBytes = made.Path, made.CapacityBytes })
		return nil
	})
}

// VolumeRemoved implements node.VolumeRegistry.
func (f ForNode) VolumeRemoved(ctx context.Context, nodeID, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return f.cp.write(func(t *tx) error {
		if row := t.volumes.get(id); row != nil && row.Volume.NodeID == nodeID && row.Deleting {
			t.deleteVolume(id)
		}
		return nil
	})
}

// loadVolume takes a stored volume.
func (cp *ControlPlane) loadVolume(id string, row *structs.NodeVolume) error {
	if row.Volume == nil {
		return errIncomplete
	}
	if err := sameID(id, row.Volume.ID); err != nil {
		return err
	}
	cp.data.volumes[id] = row
	cp.sawIndex(row.Volume.ModifyIndex)
	return nil
}

// addVolumes completes an input with the volumes that a job may mount.
func (t *tx) addVolumes(in *schedule.Input, key jobKey) {
	in.Volumes = map[string]*nomad.HostVolume{}
	t.volumes.all(func(id string, row *structs.NodeVolume) {
		if row.Volume.Namespace == key.namespace && !row.Deleting {
			in.Volumes[id] = row.Volume
		}
	})
	if len(in.Volumes) == 0 {
		return
	}
	in.Claims = t.claimsOf(key)
	in.Writers = func(v *nomad.HostVolume) string {
		for _, a := range t.liveByNode.in(v.NodeID) {
			if jobOf(a) != key && schedule.WritesTo(a.Allocation, v) {
				return a.ID
			}
		}
		return ""
	}
}
