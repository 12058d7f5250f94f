// Package sdktest holds the tests of the SDKs for other languages than Go: it compiles them
// for the machine that it runs on, and compares their codecs with Go's. What a plugin of
// theirs does under a node is tested in guest-examples.
package sdktest
