package structs

import (
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// NodeVolume is a dynamic host volume as its node is to know it.
type NodeVolume struct {
	Volume *nomad.HostVolume
	// Deleting is set from before what the volume has is removed until it is.
	Deleting bool `json:",omitempty"`
}

// MadeVolume is what making a volume came to.
type MadeVolume struct {
	Path          string // absolute, and without links
	CapacityBytes int64  // 0: it has no bound of its own
}

// VolumeSource is the name of the volume that an allocation asks for: of a request that is for
// each allocation its own, it ends in the allocation's index, such as "data[0]".
func VolumeSource(r *nomad.VolumeRequest, allocName string) string {
	if !r.PerAlloc {
		return r.Source
	}
	at := strings.LastIndexByte(allocName, '[')
	if at < 0 {
		return r.Source
	}
	return r.Source + allocName[at:]
}
