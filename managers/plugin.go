package managers

import (
	"context"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// Loader makes a plugin of a file's content: read, scan, policy, compile, describe.
// It may be called concurrently.
type Loader interface {
	// Load returns the plugin, described and with what the operator granted. A
	// [*NeedsGrantError] says that it would load with more grants; every other
	// error is a rejection of this content, and its text is what people see.
	Load(ctx context.Context, src Source) (Plugin, error)
}

// Source is a plugin file to load.
type Source struct {
	File    string // path, for messages
	Content []byte // not to be changed
	Digest  string // SHA-256 of Content, in hexadecimal
	// Sink receives what the plugin says outside of its answers.
	Sink Sink
}

// Sink receives what a plugin says outside of its answers. Its methods do not
// block and may be called concurrently, during calls and after them.
type Sink interface {
	// TaskEvent shows an event among those of its task.
	TaskEvent(*wasmnodev1.TaskEvent)
	// Refresh asks for an early fingerprint.
	Refresh()
}

// Plugin is one version of a loaded plugin. Its methods may be called
// concurrently.
type Plugin interface {
	Type() PluginType
	// Description is what the plugin answered to describe; read-only.
	Description() *wasmnodev1.DriverDescribeResponse
	// CapabilitiesImported and CapabilitiesGranted name host modules; read-only.
	CapabilitiesImported() []string
	CapabilitiesGranted() []string
	// Exports reports whether the plugin has an operation of its own.
	Exports(op string) bool
	// Call calls an operation. The error is the plugin's answer (an abi.Error), a
	// [*FaultError], or ctx's error when ctx ended the call first.
	Call(ctx context.Context, c Call) error
	// Close frees the plugin. Calls that run are cancelled; it returns when they
	// have.
	Close() error
}

// Call is one call of an operation.
type Call struct {
	Op string
	// Task is the task that the call is about, nil for none: capabilities work on
	// its behalf, and a fault is held against it.
	Task     *wasmnodev1.TaskConfig
	Request  Request
	Response Response
}

// Request is a message that can be encoded.
type Request interface {
	MarshalVT() ([]byte, error)
}

// Response is a message that can be decoded.
type Response interface {
	UnmarshalVT([]byte) error
}

// FaultError says that a guest did not answer: it trapped, ran past its deadline,
// exited, or broke the ABI. Its instance is gone.
type FaultError struct {
	Op  string
	Err error
}

// Error names the operation and the cause.
func (e *FaultError) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FaultError) Unwrap() error { return e.Err }

// NeedsGrantError says that a plugin imports what the operator did not grant.
type NeedsGrantError struct {
	Name    string // the plugin's, for its `plugin` block
	Version string
	// Imported and Granted name host modules.
	Imported, Granted []string
	// Message names the missing grant and the configuration that gives it.
	Message string
}

// Error returns the message.
func (e *NeedsGrantError) Error() string { return e.Message }
