package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// missingVolumes is Nomad's text for a node that has not what a group mounts, whatever it lacks.
const missingVolumes = "missing compatible host volumes"

// unmetVolumes returns why a node has not the volumes that a group's allocation of an index asks
// for, beginning with Nomad's text. Of a dynamic volume it says what is in the way.
func (s *scheduler) unmetVolumes(n *structs.Node, g *nomad.TaskGroup, index int, replaced *Alloc) (why []string) {
	name := allocName(*s.Job.ID, *g.Name, index)
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		asked := g.Volumes[alias]
		source := structs.VolumeSource(asked, name)
		has := n.HostVolume(source)
		switch {
		case has == nil, has.ID == "" && (has.ReadOnly && !asked.ReadOnly || asked.Sticky):
			why = append(why, missingVolumes)
		case has.ID != "":
			if text := s.unmetDynamic(s.Volumes[has.ID], asked, g, replaced); text != "" {
				why = append(why, missingVolumes, fmt.Sprintf("host volume %q: %s", source, text))
			}
		}
	}
	return why
}

// unmetDynamic returns why a dynamic volume cannot be mounted as it is asked for; empty: it can.
func (s *scheduler) unmetDynamic(v *nomad.HostVolume, asked *nomad.VolumeRequest, g *nomad.TaskGroup, replaced *Alloc) string {
	switch {
	case v == nil:
		return "it is of another namespace, or is being deleted"
	case v.State != nomad.HostVolumeStateReady:
		return "it is " + string(v.State)
	}
	access := nomad.HostVolumeAccessMode(asked.AccessMode)
	if access == nomad.HostVolumeAccessModeUnknown {
		access = nomad.HostVolumeAccessModeSingleNodeWriter
		if asked.ReadOnly {
			access = nomad.HostVolumeAccessModeSingleNodeReader
		}
	}
	attachment := cmp.Or(nomad.HostVolumeAttachmentMode(asked.AttachmentMode), nomad.HostVolumeAttachmentModeFilesystem)
	if !slices.ContainsFunc(v.RequestedCapabilities, func(c *nomad.HostVolumeCapability) bool {
		return c.AccessMode == access && c.AttachmentMode == attachment
	}) {
		return fmt.Sprintf("it has no capability %s with %s", access, attachment)
	}
	switch {
	case access == nomad.HostVolumeAccessModeSingleNodeWriter && asked.ReadOnly:
		return "to be read only, it is asked for with access_mode " + string(nomad.HostVolumeAccessModeSingleNodeReader)
	case access == nomad.HostVolumeAccessModeSingleNodeSingleWriter && !asked.ReadOnly:
		if id := s.writer(v, replaced); id != "" {
			return "allocation " + id + " writes to it"
		}
	}
	if asked.Sticky && s.claimsAnother(v, asked, g) {
		return "the group has claimed another one of that name"
	}
	return ""
}

// writer returns an allocation that may write to a volume and has not ended, but for one that is
// replaced: its successor waits for its end. Empty: there is none.
func (s *scheduler) writer(v *nomad.HostVolume, replaced *Alloc) string {
	own := slices.Clone(s.res.Place)
	for _, a := range s.Allocs {
		if !a.ClientStatus.Terminal() && (replaced == nil || a.ID != replaced.ID) {
			own = append(own, a)
		}
	}
	for _, a := range own {
		if WritesTo(a.Allocation, v) {
			return a.ID
		}
	}
	if s.Writers == nil {
		return ""
	}
	return s.Writers(v)
}

// claimsAnother reports whether the group is to have another volume of that name again, which no
// allocation of it has now.
func (s *scheduler) claimsAnother(v *nomad.HostVolume, asked *nomad.VolumeRequest, g *nomad.TaskGroup) bool {
	another := false
	for _, c := range s.Claims {
		if c.TaskGroupName != *g.Name || c.VolumeName != asked.Source {
			continue
		}
		other := s.Volumes[c.VolumeID]
		if other == nil || slices.ContainsFunc(s.running(), func(a *structs.Allocation) bool { return Mounts(a, other) && a.TaskGroup == *g.Name }) {
			continue
		}
		if other.ID == v.ID {
			return false
		}
		another = true
	}
	return another
}

// Mounts reports whether an allocation mounts a dynamic host volume. Whether it has ended does
// not matter.
func Mounts(a *structs.Allocation, v *nomad.HostVolume) bool { return mounts(a, v, true) }

// WritesTo reports whether an allocation may write to a dynamic host volume, likewise.
func WritesTo(a *structs.Allocation, v *nomad.HostVolume) bool { return mounts(a, v, false) }

func mounts(a *structs.Allocation, v *nomad.HostVolume, reading bool) bool {
	g := a.Group()
	if g == nil || a.NodeID != v.NodeID || a.Namespace != v.Namespace {
		return false
	}
	for _, asked := range g.Volumes {
		if asked.Type == "host" && structs.VolumeSource(asked, a.Name) == v.Name && (reading || !asked.ReadOnly) {
			return true
		}
	}
	return false
}

// eachItsOwn reports whether allocations of a group ask for different volumes.
func eachItsOwn(g *nomad.TaskGroup) bool {
	for _, asked := range g.Volumes {
		if asked.PerAlloc {
			return true
		}
	}
	return false
}
