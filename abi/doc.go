// Package abi is the contract between the node and its plugins, version 1: the
// names of operations and capabilities, the status codes, and the [Error] that
// both sides speak. The messages are in the subpackage wasmnodev1, generated from
// the schema in proto/. ABI.md is the same contract for authors in any language.
//
// It imports nothing of the project, builds for wasip1 as well as natively, and
// is the only package that the host and the guest SDK share.
package abi
