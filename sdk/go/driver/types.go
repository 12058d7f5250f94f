package driver

import "github.com/wasmnode/wasmnode/abi/wasmnodev1"

// The messages of the ABI, under the names that a driver's author uses: plain structs,
// whose fields are documented in abi/proto.
type (
	// Description is a driver's description of itself.
	Description = wasmnodev1.DriverDescribeResponse
	// Capabilities are the optional features of a driver.
	Capabilities = wasmnodev1.DriverCapabilities
	// Fingerprint is a driver's state at this moment.
	Fingerprint = wasmnodev1.DriverFingerprintResponse
	// Attribute is a typed value of a fingerprint; see [String], [Bool], [Int], [Float].
	Attribute = wasmnodev1.Attribute
	// TaskConfig is all that a driver gets about a task. Its Resources and
	// Directories are never nil.
	TaskConfig = wasmnodev1.TaskConfig
	// TaskDirectories are a task's directories, as the node sees them.
	TaskDirectories = wasmnodev1.TaskDirectories
	// Port is a port that a task's group was given.
	Port = wasmnodev1.Port
	// TaskHandle is what a driver needs to find its task again.
	TaskHandle = wasmnodev1.TaskHandle
	// Network is set by drivers whose tasks have addresses of their own.
	Network = wasmnodev1.DriverNetwork
	// Mount makes a host path visible in a task.
	Mount = wasmnodev1.Mount
	// ExitResult is how a task or a command ended.
	ExitResult = wasmnodev1.ExitResult
	// ExecResult is what a command in a task left.
	ExecResult = wasmnodev1.DriverExecTaskResponse
	// TaskStatus is what a driver knows of a task.
	TaskStatus = wasmnodev1.TaskStatus
	// TaskStats is what a task uses; what is nil was not measured.
	TaskStats = wasmnodev1.TaskStats
)

// A driver's judgement of itself, for Fingerprint.Health.
const (
	Healthy    = wasmnodev1.HealthState_HEALTH_STATE_HEALTHY
	Unhealthy  = wasmnodev1.HealthState_HEALTH_STATE_UNHEALTHY
	Undetected = wasmnodev1.HealthState_HEALTH_STATE_UNDETECTED
)

// What paths a task sees, for Capabilities.FilesystemIsolation.
const (
	IsolationNone   = wasmnodev1.FilesystemIsolation_FILESYSTEM_ISOLATION_NONE
	IsolationChroot = wasmnodev1.FilesystemIsolation_FILESYSTEM_ISOLATION_CHROOT
	IsolationImage  = wasmnodev1.FilesystemIsolation_FILESYSTEM_ISOLATION_IMAGE
)

// A task's state, for TaskStatus.State.
const (
	TaskRunning = wasmnodev1.TaskState_TASK_STATE_RUNNING
	TaskExited  = wasmnodev1.TaskState_TASK_STATE_EXITED
	TaskUnknown = wasmnodev1.TaskState_TASK_STATE_UNKNOWN
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
