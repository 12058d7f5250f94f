package device

import "github.com/wasmnode/wasmnode/abi/wasmnodev1"

// The messages of the ABI, under the names that an author uses: plain structs, whose
// fields are documented in abi/proto.
type (
	// Description is a device plugin's description of itself.
	Description = wasmnodev1.DeviceDescribeResponse
	// Fingerprint is the complete list of devices at this moment.
	Fingerprint = wasmnodev1.DeviceFingerprintResponse
	// GroupID is the vendor, type and name of a group.
	GroupID = wasmnodev1.DeviceGroupId
	// Group are devices that a task may use in place of one another.
	Group = wasmnodev1.DeviceGroup
	// Device is one device that one task can have.
	Device = wasmnodev1.Device
	// Attribute is a typed value of a group; see [String], [Bool], [Int], [Float].
	Attribute = wasmnodev1.Attribute
	// User is the task that devices are for.
	User = wasmnodev1.DeviceUser
	// Edits describe how a task gets at its devices.
	Edits = wasmnodev1.ContainerEdits
	// Node is a device node that a task gets.
	Node = wasmnodev1.EditedDeviceNode
	// Mount is a file or directory that a task gets, read-only unless its options say
	// "rw".
	Mount = wasmnodev1.EditedMount
	// Stats are the figures of all devices at this moment.
	Stats = wasmnodev1.DeviceStatsResponse
	// GroupStats are the figures of one group's devices, by device ID.
	GroupStats = wasmnodev1.DeviceGroupStats
	// InstanceStats are the figures of one device.
	InstanceStats = wasmnodev1.DeviceStats
	// Value is a typed figure; see [IntValue], [IntOf], [FloatValue].
	Value = wasmnodev1.StatValue
	// Figure is a figure with its place; see [Stat].
	Figure = wasmnodev1.DeviceStat
)

// String returns a text attribute.
func String(value string) *Attribute {
	return &Attribute{Value: &wasmnodev1.Attribute_StringValue{StringValue: value}}
}

// Bool returns a truth attribute.
func Bool(value bool) *Attribute {
	return &Attribute{Value: &wasmnodev1.Attribute_BoolValue{BoolValue: value}}
}

// Int returns a whole number with a unit such as "MiB", or "" for none.
func Int(value int64, unit string) *Attribute {
	return &Attribute{Value: &wasmnodev1.Attribute_IntValue{IntValue: value}, Unit: unit}
}

// Float returns a number with a unit such as "MHz", or "" for none.
func Float(value float64, unit string) *Attribute {
	return &Attribute{Value: &wasmnodev1.Attribute_FloatValue{FloatValue: value}, Unit: unit}
}

// IntValue returns a whole figure with a unit, or "" for none.
func IntValue(value int64, unit string) *Value {
	return &Value{Value: &wasmnodev1.StatValue_IntValue{IntValue: value}, Unit: unit}
}

// IntOf returns a whole figure that is a part of something: 3 of 8 GiB.
func IntOf(value, whole int64, unit string) *Value {
	v := IntValue(value, unit)
	v.Denominator = &wasmnodev1.StatValue_IntDenominator{IntDenominator: whole}
	return v
}

// FloatValue returns a figure with a unit, or "" for none.
func FloatValue(value float64, unit string) *Value {
	return &Value{Value: &wasmnodev1.StatValue_FloatValue{FloatValue: value}, Unit: unit}
}

// StringValue returns a figure that is text.
func StringValue(value string) *Value {
	return &Value{Value: &wasmnodev1.StatValue_StringValue{StringValue: value}}
}

// Stat gives a figure its place: ("memory", "used") is the figure "used" of the object
// "memory".
func Stat(value *Value, path ...string) *Figure { return &Figure{Path: path, Value: value} }
