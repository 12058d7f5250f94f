// Package boltfile is one bbolt file, opened so that an operator understands what is
// wrong with it and written so that concurrent writers share an fsync. It knows
// neither what is in the file nor who uses it: the node's state (package state) and
// the embedded control plane (package standalone) both do.
//
// Start reading at [Open], then [File.Write].
package boltfile
