//go:build !linux

package sandbox

// reserve returns zeroed memory of that size.
func reserve(bytes uint64) (memory []byte, release func()) { return make([]byte, bytes), nil }

// dropPages does nothing: memory is in the heap.
func dropPages([]byte, func(page int, content []byte) bool) {}
