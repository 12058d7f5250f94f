package device

import "context"

// Plugin is what every device plugin implements. Arguments are never nil.
//
// Errors should be made with [abi.NewError], or with [abi.NewRecoverableError] where
// trying again can help: a reservation that fails so is tried again under the task's
// restart policy. Others cross the sandbox as UNKNOWN with their text. In a plugin
// the context is never cancelled: a call that is too late ends with its instance.
type Plugin interface {
	// Describe returns the plugin's name, version and the JSON Schema of its
	// configuration. It is called first and has no capabilities.
	Describe() *Description
	// Configure takes the plugin's own configuration: JSON, valid under
	// PluginConfigSchema, defaults applied. It is called on every instance before
	// any other operation but Describe, and again when the configuration changes.
	Configure(ctx context.Context, config []byte) error
	// Fingerprint returns all devices that there are. It is polled: a device that is
	// missing from an answer is gone.
	Fingerprint(ctx context.Context) (*Fingerprint, error)
	// Reserve prepares devices for a task and returns how it gets at them. The same
	// reservation may come again and is answered the same.
	Reserve(ctx context.Context, r *Reservation) (*Edits, error)
}

// Releaser is implemented by plugins that do something in Reserve that has to be
// undone.
type Releaser interface {
	// Release ends a reservation. One that is not there is not an error.
	Release(ctx context.Context, r *Reservation) error
}

// Statser is implemented by plugins that measure their devices.
type Statser interface {
	// Stats returns the figures of the devices that there are now. It is polled.
	Stats(ctx context.Context) (*Stats, error)
}

// Reservation names devices and the task that they are for.
type Reservation struct {
	Group     *GroupID
	DeviceIDs []string // at least one
	User      *User
}
