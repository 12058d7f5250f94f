// Package guestbuild compiles guests for tests: plugins and programs, from Go and
// from C, with the flags that guest-examples/Makefile and the author's guide use.
//
// It is for tests only and must never know what a guest does. A guest is built once
// per process; across processes the linked file is kept in the repository's .cache
// and Go's own build ID decides whether it is still true, so nothing stale is ever
// returned. Start reading at [Plugin].
package guestbuild
