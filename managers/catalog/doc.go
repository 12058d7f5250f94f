// Package catalog keeps plugins in service: the [Catalog] watches the plugin directory,
// turns files into loaded plugins, and replaces and removes them while the node runs; a
// [Registry] configures, fingerprints and supervises those of one type, each a [Unit].
//
// What one file or one plugin does never reaches another: each is loaded, called and
// given up on its own, and all that the rest of the node sees of it is a [PluginStatus]
// with a reason.
//
// The package must never know what a driver or a device plugin is for: what is beyond the
// supervision of a plugin is a [Kind] of the managers that stand on this package.
//
// Start reading at [Catalog] and [Registry]; the rules of a plugin's life are one pure
// function, in supervision.go.
package catalog
