package structs

import "time"

// DeviceGroupStats are the figures of a group's devices, by device ID. A device
// without figures is not among them; no entry is nil.
type DeviceGroupStats struct {
	ID      DeviceGroupID
	Devices map[string]*DeviceStats
}

// DeviceStats are the figures of one device.
type DeviceStats struct {
	Summary *StatValue // the summary; nil: none
	Stats   *StatObject
	Time    time.Time // when they were taken
}

// StatObject is an object of figures; no entry is nil.
type StatObject struct {
	Nested     map[string]*StatObject
	Attributes map[string]*StatValue
}

// StatValue is a typed figure. Of Int, Float, String and Bool exactly one is set: a
// figure that is not known is left out and is not zero.
type StatValue struct {
	Int   *int64
	Float *float64
	// The denominators are the whole that a number is a part of; nil: of nothing.
	IntDenominator   *int64
	FloatDenominator *float64
	String           *string
	Bool             *bool
	Unit             string // of a number; see [KnownUnit]
	Description      string
}

// Number returns a figure that is a number, in the base of its unit: bytes, hertz,
// watts, volts, seconds. ok is false for what is none.
func (v *StatValue) Number() (number float64, unit string, ok bool) {
	if v == nil {
		return 0, "", false
	}
	exact, base := Attribute{Int: v.Int, Float: v.Float, Unit: v.Unit}.number()
	if exact == nil {
		return 0, "", false
	}
	number, _ = exact.Float64()
	return number, base, true
}

// Copy returns a deep copy.
func (g *DeviceGroupStats) Copy() *DeviceGroupStats {
	if g == nil {
		return nil
	}
	return &DeviceGroupStats{ID: g.ID, Devices: copyEach(g.Devices, (*DeviceStats).Copy)}
}

// Copy returns a deep copy.
func (s *DeviceStats) Copy() *DeviceStats {
	if s == nil {
		return nil
	}
	return &DeviceStats{Summary: s.Summary.Copy(), Stats: s.Stats.Copy(), Time: s.Time}
}

// Copy returns a deep copy.
func (o *StatObject) Copy() *StatObject {
	if o == nil {
		return nil
	}
	return &StatObject{Nested: copyEach(o.Nested, (*StatObject).Copy), Attributes: copyEach(o.Attributes, (*StatValue).Copy)}
}

// Copy returns a deep copy.
func (v *StatValue) Copy() *StatValue {
	if v == nil {
		return nil
	}
	return &StatValue{
		Int: copyOf(v.Int), Float: copyOf(v.Float), String: copyOf(v.String), Bool: copyOf(v.Bool),
		IntDenominator: copyOf(v.IntDenominator), FloatDenominator: copyOf(v.FloatDenominator),
		Unit: v.Unit, Description: v.Description,
	}
}

func copyEach[K comparable, V any](m map[K]V, copy func(V) V) map[K]V {
	if m == nil {
		return nil
	}
	c := make(map[K]V, len(m))
	for k, v := range m {
		c[k] = copy(v)
	}
	return c
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
