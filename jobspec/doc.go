// Package jobspec reads Nomad's job files: HCL2 with variables, locals, dynamic
// blocks and functions, into github.com/hashicorp/nomad/api types. What a field is
// called, and whether it is an attribute or a block, comes from the `hcl` tags of
// those types; the handful of blocks whose syntax differs from their tags are in
// blocks.go.
//
// It knows nothing of the node. It does not canonicalise: a field that the file does
// not set stays nil. Start reading at [Parse].
package jobspec
