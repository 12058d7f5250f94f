// Package managers keeps plugins in service: the [Catalog] watches the plugin
// directory and turns files into loaded plugins, replaces and removes them while
// the node runs; the [DriverManager] configures, fingerprints and supervises those
// that are drivers, and hands them out by name; the [DeviceManager] does so for device
// plugins, believes nothing of what they say before it is checked, and has devices
// reserved and released.
//
// What one file or one plugin does never reaches another: each is loaded, called
// and given up on its own, and all that the rest of the node sees of it is a
// [PluginStatus] with a reason.
//
// The package must never know what a task runner, an allocation runner or a job
// is; a [Driver] and the [DeviceManager] have the shapes that package runners/task asks
// for, and package node joins the two.
//
// Start reading at [Catalog] and [DriverManager], then [DeviceManager]; the rules of a
// plugin's life are one pure function, in supervision.go.
package managers
