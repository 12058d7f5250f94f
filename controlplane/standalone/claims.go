package standalone

import (
	"maps"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
)

// VolumeClaims returns which groups are to have a volume again that they asked for as sticky,
// in no order.
func (cp *ControlPlane) VolumeClaims() []*nomad.TaskGroupHostVolumeClaim {
	return read(cp, func(t *tables) []*nomad.TaskGroupHostVolumeClaim { return slices.Collect(maps.Values(t.claims)) })
}

// DeleteVolumeClaim forgets a claim, and returns the change's index: what the group places next
// may have another volume. One that is not there is errdefs.NotFound.
func (cp *ControlPlane) DeleteVolumeClaim(namespace, id string) (index uint64, err error) {
	err = cp.write(func(t *tx) error {
		if c := t.claims.get(id); c == nil || c.Namespace != namespace {
			return notFound("task group volume claim does not exist")
		}
		t.deleteClaim(id)
		index = t.at()
		t.unblock(true)
		return nil
	})
	return index, err
}

func (t *tx) deleteClaim(id string) {
	t.touched[TableVolumeClaims] = t.at()
	t.claims.delete(id)
}

// claimVolumes has an allocation that was placed claim the sticky volumes that it mounts. A
// group has one claim to a volume: of its latest allocation.
func (t *tx) claimVolumes(a *schedule.Alloc) {
	g, n := a.Group(), t.nodes.get(a.NodeID)
	if g == nil || n == nil {
		return
	}
	for _, asked := range g.Volumes {
		has := n.HostVolume(asked.Source)
		if !asked.Sticky || has == nil || has.ID == "" {
			continue
		}
		c := &nomad.TaskGroupHostVolumeClaim{
			ID: t.cp.newID(), Namespace: a.Namespace, JobID: a.JobID, TaskGroupName: a.TaskGroup,
			AllocID: a.ID, VolumeID: has.ID, VolumeName: has.Name, CreateIndex: t.at(), ModifyIndex: t.at(),
		}
		for _, old := range t.claimsOf(jobOf(a)) {
			if old.TaskGroupName == c.TaskGroupName && old.VolumeID == c.VolumeID {
				c.ID, c.CreateIndex = old.ID, old.CreateIndex
			}
		}
		t.touched[TableVolumeClaims] = t.at()
		t.claims.put(c.ID, c)
	}
}

// claimsOf are the claims of a job's groups.
func (t *tx) claimsOf(key jobKey) (list []*nomad.TaskGroupHostVolumeClaim) {
	t.claims.all(func(_ string, c *nomad.TaskGroupHostVolumeClaim) {
		if (jobKey{c.Namespace, c.JobID}) == key {
			list = append(list, c)
		}
	})
	return list
}

// deleteClaimsOf forgets those of a job that is forgotten.
func (t *tx) deleteClaimsOf(key jobKey) {
	for _, c := range t.claimsOf(key) {
		t.deleteClaim(c.ID)
	}
}

// loadClaim takes a stored claim.
func (cp *ControlPlane) loadClaim(id string, c *nomad.TaskGroupHostVolumeClaim) error {
	if err := sameID(id, c.ID); err != nil {
		return err
	}
	cp.data.claims[id] = c
	cp.sawIndex(c.ModifyIndex)
	return nil
}
