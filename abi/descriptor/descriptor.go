// Package descriptor holds the schema of the contract's messages as a program reads it: what
// turns them into JSON, and generates codecs for them.
package descriptor

import _ "embed" // the schema

// Set is an encoded google.protobuf.FileDescriptorSet of all files in proto/, which make
// generate writes. It is read-only.
//
//go:embed wasmnode.binpb
var Set []byte
