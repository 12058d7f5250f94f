package sandbox

import (
	"io"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sharedImage is an anonymous file that cannot be changed any more.
type sharedImage struct{ fd int }

// shareImage returns nil where the system refuses.
func shareImage(content []byte) *sharedImage {
	fd, err := unix.MemfdCreate("wasmnode-image", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil
	}
	s := &sharedImage{fd}
	if s.fill(content) != nil {
		s.close()
		return nil
	}
	return s
}

// fill writes what is not zero and seals the file.
func (s *sharedImage) fill(content []byte) error {
	if err := unix.Ftruncate(s.fd, int64(len(content))); err != nil {
		return err
	}
	at := int64(0)
	for page := range slices.Chunk(content, systemPage) {
		if !isBlank(page) {
			if _, err := unix.Pwrite(s.fd, page, at); err != nil {
				return err
			}
		}
		at += systemPage
	}
	_, err := unix.FcntlInt(uintptr(s.fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	return err
}

// read copies the image.
func (s *sharedImage) read(to []byte) error {
	for at := 0; at < len(to); {
		n, err := unix.Pread(s.fd, to[at:], int64(at))
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		at += n
	}
	return nil
}

// mapInto replaces the beginning of a mapping by a private view of the image.
func (s *sharedImage) mapInto(memory []byte, size uint64) error {
	if size == 0 {
		return nil
	}
	_, err := unix.MmapPtr(s.fd, 0, unsafe.Pointer(&memory[0]), uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED|unix.MAP_NORESERVE)
	return err
}

// close cannot fail in a way that anything could be done about.
func (s *sharedImage) close() { _ = unix.Close(s.fd) }
