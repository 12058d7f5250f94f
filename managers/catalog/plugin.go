package catalog

import (
	"context"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
)

// Loader makes a plugin of a file's content: scan, policy, compile, describe. Its
// methods may be called concurrently. [HostLoader] is the real one.
type Loader interface {
	// Load returns the plugin, described, with nothing granted yet. An error is a
	// rejection of this content; its text, one line, is what people see.
	Load(ctx context.Context, content []byte) (Plugin, error)
	// MaxFileBytes is the size of the largest file that is worth reading.
	MaxFileBytes() int64
}

// Plugin is one version of a loaded plugin. Its methods may be called
// concurrently, but none after Close.
type Plugin interface {
	Type() PluginType
	// Description is what the plugin answered to describe; read-only. A device
	// plugin's has a name, a version and the schema of its configuration.
	Description() *wasmnodev1.DriverDescribeResponse
	// CapabilitiesImported and CapabilitiesGranted name host modules; read-only.
	CapabilitiesImported() []string
	CapabilitiesGranted() []string
	// Stats is what the plugin did so far.
	Stats() host.Stats
	// Grants is what the operator grants the plugin; read-only.
	Grants() host.Grants
	// Has reports whether the plugin exports an operation.
	Has(op string) bool
	// Configure grants what the operator decided and hands over the configuration,
	// JSON that is valid under the plugin's schema. Every instance gets it.
	Configure(ctx context.Context, config []byte) error
	// Call calls an operation. The error is the plugin's answer (an abi.Error), a
	// [*host.FaultError], or ctx's when it was cancelled.
	Call(ctx context.Context, c Call) error
	// Close frees the plugin. It waits for the calls that run.
	Close()
}

// Call is one call of an operation.
type Call struct {
	Op string
	// Task is the task that the call is about, nil for none: capabilities work on
	// its behalf, and a fault is held against it.
	Task *wasmnodev1.TaskConfig
	// Events takes the task events that the plugin sends in the call. Nil: nobody does,
	// which the plugin is told.
	Events  host.EventSink
	Request Message
	Answer  Message
}

// Message is a message of the contract.
type Message interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}
