// Package configschema checks configuration against a plugin's JSON Schema (2020-12): a
// task's `config` block, and the `config` of the operator's `plugin` block. It fits
// the shapes that HCL gives to what the schema asks for, applies defaults, and
// names every fault with its path in the file.
//
// Schemas come from plugins and are not trusted: their size, depth and the work of
// a check are bounded, and nothing is ever fetched for a $ref.
//
// The package must never know what a plugin, a task or a node is.
//
// Start reading at [Compile] and [Schema.Check].
package configschema
