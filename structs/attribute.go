package structs

import (
	"cmp"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Attribute is a typed value with an optional unit. At most one of its values is set;
// none and a zero differ. Attributes are values: what they point to is never changed.
type Attribute struct {
	Int    *int64
	Float  *float64
	String *string
	Bool   *bool
	Unit   string // of a number; see [KnownUnit]
}

// IntAttribute returns a whole number with a unit, or "" for none.
func IntAttribute(v int64, unit string) Attribute { return Attribute{Int: &v, Unit: unit} }

// FloatAttribute returns a number with a unit, or "" for none.
func FloatAttribute(v float64, unit string) Attribute { return Attribute{Float: &v, Unit: unit} }

// StringAttribute returns a text.
func StringAttribute(v string) Attribute { return Attribute{String: &v} }

// BoolAttribute returns a truth.
func BoolAttribute(v bool) Attribute { return Attribute{Bool: &v} }

// ParseAttribute reads what a person writes: "true", "4", "4.5 GHz", "11GiB". What is
// none of those is a text.
func ParseAttribute(text string) Attribute {
	text = strings.TrimSpace(text)
	switch text {
	case "true":
		return BoolAttribute(true)
	case "false":
		return BoolAttribute(false)
	}
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/%")
	unit := text[len(number):]
	number = strings.TrimSpace(number)
	if KnownUnit(unit) {
		if v, err := strconv.ParseInt(number, 10, 64); err == nil {
			return IntAttribute(v, unit)
		}
		if v, err := strconv.ParseFloat(number, 64); err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) {
			return FloatAttribute(v, unit)
		}
	}
	return StringAttribute(text)
}

// IsSet reports whether the attribute has a value.
func (a Attribute) IsSet() bool {
	return a.Int != nil || a.Float != nil || a.String != nil || a.Bool != nil
}

// Text is the attribute for people; "" for none.
func (a Attribute) Text() string {
	unit := a.Unit
	if unit != "" {
		unit = " " + unit
	}
	switch {
	case a.Int != nil:
		return strconv.FormatInt(*a.Int, 10) + unit
	case a.Float != nil:
		return strconv.FormatFloat(*a.Float, 'g', -1, 64) + unit
	case a.String != nil:
		return *a.String
	case a.Bool != nil:
		return strconv.FormatBool(*a.Bool)
	}
	return ""
}

// Equal reports whether two attributes have the same value, type and unit as written:
// 1 GiB and 1024 MiB do not.
func (a Attribute) Equal(b Attribute) bool {
	return a.Unit == b.Unit && same(a.Int, b.Int) && same(a.Float, b.Float) && same(a.String, b.String) && same(a.Bool, b.Bool)
}

func same[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// Compare orders two values of one kind: texts, truths (false first), and numbers,
// exactly, in units of one dimension. Values of different kinds, a number with a unit
// and one without, and units of different dimensions cannot be compared: ok is false.
func (a Attribute) Compare(b Attribute) (order int, ok bool) {
	switch {
	case a.String != nil && b.String != nil:
		return cmp.Compare(*a.String, *b.String), true
	case a.Bool != nil && b.Bool != nil:
		return cmp.Compare(rank(*a.Bool), rank(*b.Bool)), true
	}
	x, xBase := a.number()
	y, yBase := b.number()
	if x == nil || y == nil || xBase != yBase {
		return 0, false
	}
	return x.Cmp(y), true
}

func rank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// number returns a number in the base of its unit's dimension; nil for what is none.
func (a Attribute) number() (value *big.Rat, base string) {
	switch {
	case a.Int != nil:
		value = new(big.Rat).SetInt64(*a.Int)
	case a.Float != nil:
		value = new(big.Rat).SetFloat64(*a.Float) // nil for infinities and NaN
	}
	if value == nil || a.Unit == "" {
		return value, ""
	}
	u, known := units[a.Unit]
	if !known {
		return nil, ""
	}
	return value.Mul(value, u.factor), u.base
}
