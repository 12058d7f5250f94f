// Package hostcall is the guest's end of the ABI: the bytes that go in and out of
// the host, and nothing about what they mean. In a plugin its functions are
// imports; natively they go to the [Host] in the context, which is how an author's
// tests run without WebAssembly.
//
// The linker keeps only the imports that are reached, so a plugin that never logs
// does not import the log capability: the import section stays a true manifest.
package hostcall
