package schedule

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// deviceKey is one device of a node.
type deviceKey struct {
	group structs.DeviceGroupID
	id    string
}

func keysOf(d structs.AllocatedDevice) (keys []deviceKey) {
	for _, id := range d.DeviceIDs {
		keys = append(keys, deviceKey{d.Group(), id})
	}
	return keys
}

// missingDevices returns which devices that a group asks for a node could not give even
// if no other allocation had any; nothing when there is none.
func missingDevices(n *structs.Node, g *nomad.TaskGroup) (why []string) {
	for _, t := range g.Tasks {
		for _, ask := range devicesOf(t) {
			best := 0
			matches := false
			for _, have := range n.Devices {
				if have.ID.Matches(ask.Name) && deviceMeets(ask.Constraints, have) {
					matches = true
					best = max(best, len(usableDevices(ask, have)))
				}
			}
			switch count := deviceCount(ask); {
			case !matches:
				// Nomad's text, and what is missing.
				why = append(why, "missing devices", fmt.Sprintf("device %s: no such device meets its constraints", ask.Name))
			case uint64(best) < count:
				why = append(why, "missing devices", fmt.Sprintf("device %s: %d asked for, %d healthy", ask.Name, count, best))
			}
		}
	}
	return why
}

func devicesOf(t *nomad.Task) []*nomad.RequestedDevice {
	if t.Resources == nil {
		return nil
	}
	return t.Resources.Devices
}

func deviceCount(ask *nomad.RequestedDevice) uint64 {
	if ask.Count == nil {
		return 1
	}
	return *ask.Count
}

// usableDevices are the healthy devices of a group that a request may be given, in the
// order of their IDs.
func usableDevices(ask *nomad.RequestedDevice, g *structs.DeviceGroup) (ids []string) {
	for _, d := range g.Devices {
		if d.Health == structs.DeviceHealthy && idMeets(ask.Constraints, d.ID) {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// assignDevices fills in each task's devices: for each request the group that its
// affinities prefer, the first of equals, and the lowest free IDs of it.
func (u *use) assignDevices(n *structs.Node, cl *claim, g *nomad.TaskGroup, r *structs.AllocatedResources) (dimension string) {
	given := map[deviceKey]bool{}
	for _, t := range g.Tasks {
		for _, ask := range devicesOf(t) {
			d, free := u.assignDevice(n, cl, ask, given)
			if d == nil {
				return fmt.Sprintf("devices: %s: %d asked for, %d free", ask.Name, deviceCount(ask), free)
			}
			r.Tasks[t.Name].Devices = append(r.Tasks[t.Name].Devices, *d)
			for _, key := range keysOf(*d) {
				given[key] = true
			}
		}
	}
	return ""
}

// assignDevice returns what a request is given; nil, and the most that is free in one
// group, when that is too little.
func (u *use) assignDevice(n *structs.Node, cl *claim, ask *nomad.RequestedDevice, given map[deviceKey]bool) (best *structs.AllocatedDevice, mostFree int) {
	count := deviceCount(ask)
	bestScore := math.Inf(-1)
	for _, g := range n.Devices {
		if !g.ID.Matches(ask.Name) || !deviceMeets(ask.Constraints, g) {
			continue
		}
		ids := slices.DeleteFunc(usableDevices(ask, g), func(id string) bool {
			key := deviceKey{g.ID, id}
			return given[key] || !u.free(deviceThing(key), cl)
		})
		mostFree = max(mostFree, len(ids))
		if uint64(len(ids)) < count {
			continue
		}
		if score := deviceScore(ask.Affinities, g); score > bestScore {
			bestScore = score
			best = &structs.AllocatedDevice{Vendor: g.ID.Vendor, Type: g.ID.Type, Name: g.ID.Name, DeviceIDs: ids[:count]}
		}
	}
	return best, mostFree
}

// deviceScore is how well a group matches affinities, from -1 to 1.
func deviceScore(affinities []*nomad.Affinity, g *structs.DeviceGroup) float64 {
	return affinityScore(affinities, func(c *nomad.Constraint) bool { return meetsDevice(c, g) })
}

func deviceMeets(constraints []*nomad.Constraint, g *structs.DeviceGroup) bool {
	return !slices.ContainsFunc(constraints, func(c *nomad.Constraint) bool { return !meetsDevice(c, g) })
}

// deviceIDs is the target that stands for the IDs of a group's devices.
const deviceIDs = "${device.ids}"

// idMeets reports whether one device is among those that constraints on IDs name.
func idMeets(constraints []*nomad.Constraint, id string) bool {
	return !slices.ContainsFunc(constraints, func(c *nomad.Constraint) bool {
		if c.LTarget != deviceIDs {
			return false
		}
		named := slices.Contains(set(c.RTarget), id)
		switch c.Operand {
		case "!=", "not":
			return named
		case nomad.ConstraintAttributeIsSet, nomad.ConstraintAttributeIsNotSet:
			return false
		case nomad.ConstraintRegex:
			re, err := regexp.Compile(c.RTarget)
			return err != nil || !re.MatchString(id)
		}
		return !named
	})
}

// resolveDevice returns what a constraint's target is of a device group. Text that is
// no reference is what it resolves to: "4 GiB" is a number with a unit.
func resolveDevice(target string, g *structs.DeviceGroup) (value structs.Attribute, ok bool) {
	if !strings.HasPrefix(target, "${") || !strings.HasSuffix(target, "}") {
		return structs.ParseAttribute(target), true
	}
	name := target[2 : len(target)-1]
	if key, is := strings.CutPrefix(name, "device.attr."); is {
		value, ok = g.Attributes[key]
		return value, ok
	}
	switch name {
	case "device.vendor":
		return structs.StringAttribute(g.ID.Vendor), true
	case "device.type":
		return structs.StringAttribute(g.ID.Type), true
	case "device.model":
		return structs.StringAttribute(g.ID.Name), true
	}
	return structs.Attribute{}, false
}

// meetsDevice reports whether a device group meets a constraint. Constraints on IDs are
// each device's to meet. Values that cannot be compared, such as GiB with MHz, meet
// nothing but "!=".
func meetsDevice(c *nomad.Constraint, g *structs.DeviceGroup) bool {
	if c.LTarget == deviceIDs {
		return hasNamed(c, g)
	}
	left, lok := resolveDevice(c.LTarget, g)
	right, rok := resolveDevice(c.RTarget, g)
	switch c.Operand {
	case nomad.ConstraintAttributeIsSet:
		return lok
	case nomad.ConstraintAttributeIsNotSet:
		return !lok
	}
	if lok && left.String != nil && rok {
		// A text is compared as it is written, also when it looks like a number.
		right = structs.StringAttribute(textOf(c.RTarget, right))
	}
	order, comparable := left.Compare(right)
	comparable = comparable && lok && rok
	switch c.Operand {
	case "!=", "not":
		return !comparable || order != 0
	case "=", "==", "is", "":
		return comparable && order == 0
	case "<":
		return comparable && order < 0
	case "<=":
		return comparable && order <= 0
	case ">":
		return comparable && order > 0
	case ">=":
		return comparable && order >= 0
	}
	return lok && rok && meetsText(c.Operand, left.Text(), textOf(c.RTarget, right))
}

// textOf is a target's text: as it is written, or of the value that it refers to.
func textOf(target string, value structs.Attribute) string {
	if strings.HasPrefix(target, "${") {
		return value.Text()
	}
	return target
}

// hasNamed reports whether a group has the devices that a constraint on IDs needs at
// all; which of them a task gets, each device decides.
func hasNamed(c *nomad.Constraint, g *structs.DeviceGroup) bool {
	if c.Operand != nomad.ConstraintSetContains && c.Operand != nomad.ConstraintSetContainsAll {
		return true
	}
	return !slices.ContainsFunc(set(c.RTarget), func(id string) bool {
		return !slices.ContainsFunc(g.Devices, func(d structs.Device) bool { return d.ID == id })
	})
}
