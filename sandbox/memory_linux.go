package sandbox

import "golang.org/x/sys/unix"

// reserve returns zeroed memory of that size, of which only what is touched counts.
// Where the system refuses to map it, it is in the heap.
func reserve(bytes uint64) (memory []byte, release func()) {
	if bytes == 0 {
		return nil, nil
	}
	b, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return make([]byte, bytes), nil
	}
	return b, func() { _ = unix.Munmap(b) } // it fails only for what is not a mapping
}
