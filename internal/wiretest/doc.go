// Package wiretest holds the tests that compare the codecs of abi/wasmnodev1 with
// Google's implementation of Protocol Buffers. They are here and not in abi, so that
// the module of abi, which every author of a plugin requires, requires nothing.
package wiretest
