package standalone

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	nomad "github.com/hashicorp/nomad/api"
)

// The bounds of dynamic host volumes.
const (
	maxHostVolumes        = 1000     // of a node
	maxVolumeName         = 128      // bytes
	maxVolumeParameters   = 32 << 10 // bytes, of names and values
	maxVolumeCapabilities = 16
	maxVolumeConstraints  = 64
)

// defaultPlugin makes a volume that names none, as with Nomad. It is not built in.
const defaultPlugin = "default"

// volumeFault is why a volume cannot be as it is defined, all of it on a line; nil: it can. The
// texts are Nomad's where it has one.
func (s setting) volumeFault(v *nomad.HostVolume) error {
	check := &validation{setting: s}
	check.hostVolume(v)
	if !check.faults.any() {
		return nil
	}
	return invalid("volume validation failed: %s", strings.Join(check.faults.list(), "; "))
}

func (v *validation) hostVolume(h *nomad.HostVolume) {
	if err := uuid.Validate(h.ID); h.ID != "" && err != nil {
		v.fault("invalid ID %q", h.ID)
	}
	if v.namespace(h.Namespace) == nil {
		v.fault("no such namespace %q", h.Namespace)
	}
	switch {
	case h.Name == "":
		v.fault("missing name")
	case len(h.Name) > maxVolumeName:
		v.fault("name: it has %d bytes; at most %d", len(h.Name), maxVolumeName)
	}
	v.printable("name", h.Name)
	lower, upper := h.RequestedCapacityMinBytes, h.RequestedCapacityMaxBytes
	switch {
	case lower < 0 || upper < 0:
		v.fault("capacity_min (%d) and capacity_max (%d) must not be negative", lower, upper)
	case upper < lower:
		v.fault("capacity_max (%d) must be larger than capacity_min (%d)", upper, lower)
	}
	v.capabilities(h.RequestedCapabilities)
	size := 0
	for name, value := range h.Parameters {
		v.printable("parameters", name)
		size += len(name) + len(value)
	}
	if size > maxVolumeParameters {
		v.fault("parameters: they have %d bytes; at most %d", size, maxVolumeParameters)
	}
	if len(h.Constraints) > maxVolumeConstraints {
		v.fault("constraint: there are %d; at most %d", len(h.Constraints), maxVolumeConstraints)
		return
	}
	for i, c := range h.Constraints {
		v.in(fmt.Sprintf("constraint %d", i+1), func() { v.hostVolumeConstraint(c) })
	}
}

func (v *validation) hostVolumeConstraint(c *nomad.Constraint) {
	switch {
	case c == nil:
		v.fault("it is empty")
	case c.Operand == nomad.ConstraintDistinctHosts, c.Operand == nomad.ConstraintDistinctProperty:
		v.fault("invalid constraint %s: host volumes of the same name are always on distinct hosts", c.Operand)
	default:
		v.constraint(c, false)
	}
}

func (v *validation) capabilities(list []*nomad.HostVolumeCapability) {
	if len(list) > maxVolumeCapabilities {
		v.fault("capability: there are %d; at most %d", len(list), maxVolumeCapabilities)
		return
	}
	for i, c := range list {
		v.in(fmt.Sprintf("capability %d", i+1), func() {
			if c == nil {
				v.fault("it is empty")
				return
			}
			if c.AttachmentMode == "" || !slices.Contains(attachmentModes, string(c.AttachmentMode)) {
				v.fault("invalid attachment mode: %q", c.AttachmentMode)
			}
			if c.AccessMode == "" || !slices.Contains(accessModes, string(c.AccessMode)) {
				v.fault("invalid access mode: %q", c.AccessMode)
			}
		})
	}
}
