// Package configdoc writes the documentation of a configuration from its schema: a table in
// Markdown, and an example in HCL that the schema takes. The texts of a schema are a plugin's,
// and not trusted: they cannot leave their line or their cell.
//
// It knows nothing of plugins or nodes. Start reading at [Table] and [Example].
package configdoc
