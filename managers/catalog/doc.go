// Package catalog keeps plugins in service: the [Catalog] watches the plugin directory,
// turns files into loaded plugins, and replaces and removes them while the node runs; a
// [Registry] configures, fingerprints and supervises those of one type, each a [Unit].
//
// What one file or one plugin does never reaches another: each is loaded, called and
// given up on its own, and all that the rest of the node sees of it is a [PluginStatus]
// with a reason.
//
// The package must never know what a driver or a device plugin is for: what is beyond the
// supervision of a plugin is a [Kind] of the managers that use this package.
//
// # Locks
//
// No lock is held across I/O, a call of a guest or a callback: what follows from a change
// is returned as values and done after unlocking. Each type's mu guards that type alone.
// Two are held at once in one place only: [Registry.Acquire] takes a unit's mu under the
// registry's, so that a unit that is closed is not mistaken for one that is not there.
//
// Start reading at [Catalog] and [Registry]; the rules of a plugin's supervision are one pure
// function, in supervision.go.
package catalog
