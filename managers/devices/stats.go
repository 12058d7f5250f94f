package devices

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/structs"
)

// Bounds of a device's figures.
const (
	maxFigures     = 256
	maxFigureDepth = 8
)

// groupStats are figures by group.
type groupStats map[structs.DeviceGroupID]*structs.DeviceGroupStats

// checkDeviceStats makes figures of a plugin's answer. Groups and devices that are not
// known are left out: they may have come or gone since the last fingerprint. Anything
// else that is wrong refuses the whole.
func checkDeviceStats(a *wasmnodev1.DeviceStatsResponse, known index, now time.Time) (groupStats, error) {
	if n := len(a.Groups); n > maxDeviceGroups {
		return nil, fmt.Errorf("%d groups, the limit is %d", n, maxDeviceGroups)
	}
	all := groupStats{}
	for i, g := range a.Groups {
		id, err := checkGroupID(g.GetId())
		if err != nil {
			return nil, fmt.Errorf("groups[%d]: %w", i, err)
		}
		if all[id] != nil {
			return nil, fmt.Errorf("groups[%d]: %s is listed twice", i, id)
		}
		out := &structs.DeviceGroupStats{ID: id, Devices: map[string]*structs.DeviceStats{}}
		all[id] = out
		for device, s := range g.GetDevices() {
			if _, ok := known[id][device]; !ok {
				continue
			}
			if out.Devices[device], err = checkStats(s, now); err != nil {
				return nil, fmt.Errorf("%s: device %q: %w", id, device, err)
			}
		}
		if known[id] == nil {
			delete(all, id)
		}
	}
	return all, nil
}

func checkStats(s *wasmnodev1.DeviceStats, now time.Time) (*structs.DeviceStats, error) {
	if s == nil {
		return nil, errors.New("no figures")
	}
	out := &structs.DeviceStats{Time: now, Stats: &structs.StatObject{}}
	if at := time.Unix(0, s.TimeNs); s.TimeNs > 0 && at.Before(now) {
		out.Time = at
	}
	if n := len(s.Stats); n > maxFigures {
		return nil, fmt.Errorf("%d figures, the limit is %d", n, maxFigures)
	}
	var err error
	if s.Summary != nil {
		if out.Summary, err = checkFigure(s.Summary); err != nil {
			return nil, fmt.Errorf("summary: %w", err)
		}
	}
	for _, stat := range s.Stats {
		if err := place(out.Stats, stat); err != nil {
			return nil, fmt.Errorf("figure %q: %w", catalog.Printable(strings.Join(stat.GetPath(), "/")), err)
		}
	}
	return out, nil
}

// place puts a figure at its path.
func place(o *structs.StatObject, stat *wasmnodev1.DeviceStat) error {
	path := stat.GetPath()
	if len(path) == 0 || len(path) > maxFigureDepth {
		return fmt.Errorf("its path has %d elements, but has to have one to %d", len(path), maxFigureDepth)
	}
	for _, name := range path {
		if err := checkName(name); err != nil {
			return fmt.Errorf("a name in its path %w", err)
		}
	}
	for _, name := range path[:len(path)-1] {
		if o.Nested == nil {
			o.Nested = map[string]*structs.StatObject{}
		}
		if o.Nested[name] == nil {
			o.Nested[name] = &structs.StatObject{}
		}
		o = o.Nested[name]
	}
	name := path[len(path)-1]
	if o.Attributes[name] != nil {
		return errors.New("is listed twice")
	}
	v, err := checkFigure(stat.GetValue())
	if err != nil {
		return err
	}
	if o.Attributes == nil {
		o.Attributes = map[string]*structs.StatValue{}
	}
	o.Attributes[name] = v
	return nil
}

func checkFigure(v *wasmnodev1.StatValue) (*structs.StatValue, error) {
	out := &structs.StatValue{Unit: v.GetUnit(), Description: catalog.Printable(v.GetDescription())}
	switch value := v.GetValue().(type) {
	case *wasmnodev1.StatValue_IntValue:
		out.Int = &value.IntValue
	case *wasmnodev1.StatValue_FloatValue:
		out.Float = &value.FloatValue
	case *wasmnodev1.StatValue_StringValue:
		out.String = &value.StringValue
	case *wasmnodev1.StatValue_BoolValue:
		out.Bool = &value.BoolValue
	default:
		return nil, errors.New("has no value")
	}
	switch d := v.GetDenominator().(type) {
	case *wasmnodev1.StatValue_IntDenominator:
		out.IntDenominator = &d.IntDenominator
	case *wasmnodev1.StatValue_FloatDenominator:
		out.FloatDenominator = &d.FloatDenominator
	}
	if out.IntDenominator != nil && out.Int == nil || out.FloatDenominator != nil && out.Float == nil {
		return nil, errors.New("its denominator is of another type than its value")
	}
	if err := checkValue(out.FloatDenominator, nil, true, ""); err != nil {
		return nil, fmt.Errorf("denominator: %w", err)
	}
	return out, checkValue(out.Float, out.String, out.Int != nil || out.Float != nil, out.Unit)
}

// index finds the devices of a group by their ID.
type index map[structs.DeviceGroupID]map[string]structs.Device

func indexOf(groups []*structs.DeviceGroup) index {
	index := index{}
	for _, g := range groups {
		index[g.ID] = make(map[string]structs.Device, len(g.Devices))
		for _, d := range g.Devices {
			index[g.ID][d.ID] = d
		}
	}
	return index
}

// sorted returns the figures in the order of their groups.
func (s groupStats) sorted() []*structs.DeviceGroupStats {
	all := make([]*structs.DeviceGroupStats, 0, len(s))
	for _, g := range s {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *structs.DeviceGroupStats) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	return all
}
