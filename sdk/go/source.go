//go:build !wasip1

// Package sdk has the source of the SDK for plugins in Go, for programs that put a copy of it
// beside a plugin. Plugins import the packages below it: start reading at package driver.
package sdk

import "embed"

// Source has the files of this module, and of its tests. A program that does not read it does
// not get larger by it.
//
//go:embed go.mod go.sum */*.go */*/*.go
var Source embed.FS
