// Package guestbuild compiles guests for tests: plugins and programs, from Go,
// AssemblyScript, C, Rust and Zig, with the flags that the author's guide uses. A test of a driver that stands
// beside its code begins with
//
//	node := drivertest.NewCompiled(t, guestbuild.Plugin(t, "."), nil)
//
// A directory that begins with a dot is meant from the test's own directory, as
// everywhere in Go; any other from the root of the module that the test is in, so that
// helpers which several packages share can name it; an absolute one is itself.
//
// It is for tests only and must never know what a guest does. A guest is built once
// per process; across processes the linked file is kept in the user's cache directory
// and Go's own build ID decides whether it is still true, so nothing stale is ever
// returned. Start reading at [Plugin].
package guestbuild
