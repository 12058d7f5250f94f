package engine

import "syscall"

// reserve returns zeroed memory of that size, of which only what is touched counts.
// Where the system refuses to map it, it is in the heap.
func reserve(bytes uint64) (memory []byte, release func()) {
	if bytes == 0 {
		return nil, nil
	}
	b, err := syscall.Mmap(-1, 0, int(bytes), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
	if err != nil {
		return make([]byte, bytes), nil
	}
	return b, func() { _ = syscall.Munmap(b) } // it fails for what is no mapping, which b is
}
