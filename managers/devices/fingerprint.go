package devices

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/structs"
)

// Bounds of what a device plugin reports of its devices.
const (
	maxDeviceGroups    = 64
	maxDevices         = 4096
	maxGroupAttributes = 64
	maxDeviceNameBytes = 128
	maxDeviceTextBytes = 1 << 10
)

// checkDevices makes groups, sorted, of a fingerprint. It refuses the whole of it when
// a part is wrong: an error about one device makes the others doubtful.
func checkDevices(a *wasmnodev1.DeviceFingerprintResponse) ([]*structs.DeviceGroup, error) {
	if n := len(a.Groups); n > maxDeviceGroups {
		return nil, fmt.Errorf("%d groups, the limit is %d", n, maxDeviceGroups)
	}
	c := fingerprintCheck{groups: map[structs.DeviceGroupID]bool{}, ids: map[string]bool{}}
	groups := make([]*structs.DeviceGroup, 0, len(a.Groups))
	for i, g := range a.Groups {
		group, err := c.group(g)
		if err != nil {
			return nil, fmt.Errorf("groups[%d]: %w", i, err)
		}
		groups = append(groups, group)
	}
	slices.SortFunc(groups, compareGroups)
	return groups, nil
}

func compareGroups(a, b *structs.DeviceGroup) int {
	return strings.Compare(a.ID.String(), b.ID.String())
}

// fingerprintCheck remembers what one answer has named so far.
type fingerprintCheck struct {
	groups map[structs.DeviceGroupID]bool
	ids    map[string]bool
}

func (c *fingerprintCheck) group(g *wasmnodev1.DeviceGroup) (*structs.DeviceGroup, error) {
	id, err := checkGroupID(g.GetId())
	if err != nil {
		return nil, err
	}
	if c.groups[id] {
		return nil, fmt.Errorf("%s is listed twice", id)
	}
	c.groups[id] = true
	out := &structs.DeviceGroup{ID: id, Attributes: map[string]structs.Attribute{}}
	if len(g.Devices) == 0 {
		return nil, fmt.Errorf("%s has no devices", id)
	}
	for i, d := range g.Devices {
		device, err := c.device(d)
		if err != nil {
			return nil, fmt.Errorf("%s: devices[%d]: %w", id, i, err)
		}
		out.Devices = append(out.Devices, device)
	}
	slices.SortFunc(out.Devices, func(a, b structs.Device) int { return strings.Compare(a.ID, b.ID) })
	if n := len(g.Attributes); n > maxGroupAttributes {
		return nil, fmt.Errorf("%s: %d attributes, the limit is %d", id, n, maxGroupAttributes)
	}
	for _, name := range slices.Sorted(maps.Keys(g.Attributes)) {
		if err := checkName(name); err != nil {
			return nil, fmt.Errorf("%s: an attribute's name %w", id, err)
		}
		if out.Attributes[name], err = checkAttribute(g.Attributes[name]); err != nil {
			return nil, fmt.Errorf("%s: attribute %s: %w", id, name, err)
		}
	}
	return out, nil
}

func (c *fingerprintCheck) device(d *wasmnodev1.Device) (structs.Device, error) {
	out := structs.Device{ID: d.GetId(), Health: structs.DeviceUnhealthy, HealthDescription: catalog.Printable(d.GetHealthDescription()), PCIBusID: d.GetPciBusId()}
	if err := checkName(out.ID); err != nil {
		return out, fmt.Errorf("its ID %w", err)
	}
	if c.ids[out.ID] {
		return out, fmt.Errorf("the ID %q is listed twice", out.ID)
	}
	c.ids[out.ID] = true
	if len(c.ids) > maxDevices {
		return out, fmt.Errorf("more than %d devices", maxDevices)
	}
	if out.PCIBusID != "" {
		if err := checkName(out.PCIBusID); err != nil {
			return out, fmt.Errorf("its PCI bus ID %w", err)
		}
	}
	if d.GetHealthy() {
		out.Health = structs.DeviceHealthy
	}
	return out, nil
}

func checkGroupID(id *wasmnodev1.DeviceGroupId) (structs.DeviceGroupID, error) {
	out := structs.DeviceGroupID{Vendor: id.GetVendor(), Type: id.GetType(), Name: id.GetName()}
	for _, part := range []struct{ what, text string }{{"vendor", out.Vendor}, {"type", out.Type}, {"name", out.Name}} {
		if err := checkName(part.text); err != nil {
			return out, fmt.Errorf("the group's %s %w", part.what, err)
		}
		if strings.Contains(part.text, "/") {
			return out, fmt.Errorf("the group's %s %q has a '/' in it", part.what, part.text)
		}
	}
	return out, nil
}

// checkName refuses what could not be a name on one line.
func checkName(s string) error {
	switch {
	case s == "":
		return errors.New("is empty")
	case len(s) > maxDeviceNameBytes:
		return fmt.Errorf("has %d bytes, the limit is %d", len(s), maxDeviceNameBytes)
	case !isLine(s):
		return fmt.Errorf("%q has characters that do not print", s)
	case strings.TrimSpace(s) != s:
		return fmt.Errorf("%q begins or ends with a space", s)
	}
	return nil
}

// isLine reports whether a text prints on one line.
func isLine(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func checkAttribute(a *wasmnodev1.Attribute) (structs.Attribute, error) {
	out := structs.Attribute{Unit: a.GetUnit()}
	switch v := a.GetValue().(type) {
	case *wasmnodev1.Attribute_IntValue:
		out.Int = &v.IntValue
	case *wasmnodev1.Attribute_FloatValue:
		out.Float = &v.FloatValue
	case *wasmnodev1.Attribute_StringValue:
		out.String = &v.StringValue
	case *wasmnodev1.Attribute_BoolValue:
		out.Bool = &v.BoolValue
	default:
		return out, errors.New("has no value")
	}
	return out, checkValue(out.Float, out.String, out.Int != nil || out.Float != nil, out.Unit)
}

// checkValue checks what attributes and figures have in common.
func checkValue(float *float64, text *string, number bool, unit string) error {
	switch {
	case float != nil && (math.IsNaN(*float) || math.IsInf(*float, 0)):
		return fmt.Errorf("%v is not a number", *float)
	case text != nil && len(*text) > maxDeviceTextBytes:
		return fmt.Errorf("its text has %d bytes, the limit is %d", len(*text), maxDeviceTextBytes)
	case text != nil && !isLine(*text):
		return fmt.Errorf("its text %q has characters that do not print", *text)
	case unit != "" && !number:
		return fmt.Errorf("has a unit, %q, and is not a number", catalog.Printable(unit))
	case !structs.KnownUnit(unit):
		return fmt.Errorf("its unit %q is none of %s", catalog.Printable(unit), strings.Join(structs.Units(), ", "))
	}
	return nil
}
