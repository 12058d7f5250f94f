// Package wasmbin reads and writes the WebAssembly binary format within stated
// bounds. It is what both scan (what does this file declare?)
// and meter (the same program, with a fuel counter) use, so that both see the
// same bytes in the same way.
//
// Three guarantees hold for every input, however hostile:
//
//   - Every count and every length is compared with the bytes that remain before
//     anything is allocated for it; what is kept of a module costs at most four
//     bytes for each byte read, beside a constant.
//   - Reading is one pass, linear in the input.
//   - What is written is canonical: every number in its shortest form, nothing
//     that was not decoded. Two readers that differ in how they take an odd
//     encoding cannot be played off against each other, since the second one
//     never sees it.
//
// The package checks structure, index ranges and the set of features. It does
// not check types: the engine does that, on what this package wrote. It must
// never know about wazero, plugins or policies.
//
// Start reading at [Decode], then [Walker], then [Encode].
package wasmbin
