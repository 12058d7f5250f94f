//go:build !wasip1

package abi

import "embed"

// Source has the files of this module, without its tests, for programs that put a copy of the
// contract beside a plugin. A program that does not read it does not get larger by it.
//
//go:embed go.mod doc.go error.go names.go internal/*/*.go wasmnodev1/*.go
var Source embed.FS
