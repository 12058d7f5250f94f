package standalone

import (
	"fmt"
	"maps"
	"path"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
)

const maxVolumes = 100 // of a group, and mounts of a task

// The modes that host volumes may be asked for in; empty: the one that fits.
var (
	accessModes     = []string{"", "single-node-reader-only", "single-node-writer", "single-node-single-writer", "single-node-multi-writer"}
	attachmentModes = []string{"", "file-system", "block-device"}
)

// volumes refuses what Nomad refuses of a group's, and what there is none of here.
func (v *validation) volumes(j *nomad.Job, g *nomad.TaskGroup) {
	if len(g.Volumes) > maxVolumes {
		v.fault("volumes: a group has at most %d: this one has %d", maxVolumes, len(g.Volumes))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(g.Volumes)) {
		v.in(fmt.Sprintf("volume %q", name), func() { v.volume(j, g, g.Volumes[name]) })
	}
}

func (v *validation) volume(j *nomad.Job, g *nomad.TaskGroup, r *nomad.VolumeRequest) {
	switch r.Type {
	case "host":
	case "csi":
		v.fault("type: there are no CSI volumes: use one of the type \"host\"")
		return
	default:
		v.fault("type: volume has unrecognized type %q: use \"host\"", r.Type)
		return
	}
	v.printable("source", r.Source)
	if r.Source == "" {
		v.fault("source: volume has an empty source")
	}
	if r.PerAlloc {
		v.perAlloc(j, g, r)
	}
	switch {
	case !slices.Contains(accessModes, r.AccessMode):
		v.fault("access_mode: host volumes cannot be mounted with %s access mode", r.AccessMode)
	case r.AccessMode == string(nomad.HostVolumeAccessModeSingleNodeReader) && !r.ReadOnly:
		v.fault("access_mode: %s volumes must be read-only", r.AccessMode)
	}
	if !slices.Contains(attachmentModes, r.AttachmentMode) {
		v.fault("attachment_mode: host volumes cannot be mounted with %s attachment mode", r.AttachmentMode)
	}
}

// perAlloc refuses what leaves open which volume an allocation has of those that are one for each.
func (v *validation) perAlloc(j *nomad.Job, g *nomad.TaskGroup, r *nomad.VolumeRequest) {
	if schedule.PerNode(j) {
		v.fault("per_alloc: volume cannot be per_alloc for system or sysbatch jobs")
	}
	if g.Update != nil && structs.Deref(g.Update.Canary) > 0 {
		v.fault("per_alloc: volume cannot be per_alloc when canaries are in use")
	}
	if r.Sticky {
		v.fault("per_alloc: volume cannot be per_alloc and sticky at the same time")
	}
}

// volumeMounts refuses what a task cannot mount, or where.
func (v *validation) volumeMounts(g *nomad.TaskGroup, t *nomad.Task) {
	if len(t.VolumeMounts) > maxVolumes {
		v.fault("volume_mount: a task has at most %d: this one has %d", maxVolumes, len(t.VolumeMounts))
		return
	}
	at := map[string]int{}
	for i, m := range t.VolumeMounts {
		name, destination := structs.Deref(m.Volume), path.Join("/", structs.Deref(m.Destination))
		v.printable("volume_mount", structs.Deref(m.Destination))
		if g.Volumes[name] == nil {
			v.fault("Volume Mount (%d) references undefined volume %s", i, name)
		}
		if destination == "/" {
			v.fault("Volume Mount (%d): destination: %q is not below the task's root", i, structs.Deref(m.Destination))
		} else if first, again := at[destination]; again {
			v.fault("Volume Mount (%d): destination: %s is that of volume mount %d", i, destination, first)
		}
		at[destination] = i
	}
}
