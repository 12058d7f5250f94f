package sandbox

import (
	"encoding/binary"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

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

// dropPages gives back the private pages of a mapping that may go: they are again what is mapped
// there. Where the system does not say which pages are private, none is.
func dropPages(memory []byte, mayGo func(page int, content []byte) bool) {
	states, err := pageStates(memory)
	if err != nil {
		return
	}
	first := 0 // of the pages that go together
	for page := range len(states) + 1 {
		if page < len(states) && states[page].private() && mayGo(page, memory[page*systemPage:][:systemPage]) {
			continue
		}
		if first < page {
			_ = unix.Madvise(memory[first*systemPage:page*systemPage], unix.MADV_DONTNEED) // it fails only for what is not a mapping
		}
		first = page + 1
	}
}

// pageState is what the kernel tells of a page, as proc_pid_pagemap(5) has it.
type pageState uint64

const (
	pageShared  pageState = 1 << 61 // it is a file's
	pagePresent pageState = 1 << 63
)

// private reports whether the page takes memory that nothing else uses.
func (s pageState) private() bool { return s&(pagePresent|pageShared) == pagePresent }

// pageStates returns the state of each page of a mapping.
func pageStates(memory []byte) ([]pageState, error) {
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const entry = 8 // bytes for each page
	raw := make([]byte, len(memory)/systemPage*entry)
	if len(raw) == 0 {
		return nil, nil
	}
	at := uintptr(unsafe.Pointer(&memory[0])) / systemPage * entry
	if _, err := f.ReadAt(raw, int64(at)); err != nil {
		return nil, err
	}
	states := make([]pageState, len(raw)/entry)
	for i := range states {
		states[i] = pageState(binary.NativeEndian.Uint64(raw[i*entry:]))
	}
	return states, nil
}
