package sandbox

import (
	"bytes"
	"slices"
	"sync"
)

// systemPage is what memory is shared and copied by.
const systemPage = 4096

var blankPage [systemPage]byte

// isBlank reports whether a page, or a piece of one, is nothing but zeros.
func isBlank(page []byte) bool { return bytes.Equal(page, blankPage[:len(page)]) }

// image is what memories begin with. Where the system allows it, they share the
// image until they write to it, page by page. It is safe for concurrent use.
type image struct {
	size  uint64
	blank []bool // by page: nothing but zeros

	mu     sync.RWMutex
	shared *sharedImage // nil: there is none, each memory gets a copy of bytes
	bytes  []byte
	closed bool
}

func newImage(content []byte) *image {
	i := &image{size: uint64(len(content))}
	for page := range slices.Chunk(content, systemPage) {
		i.blank = append(i.blank, isBlank(page))
	}
	if i.shared = shareImage(content); i.shared == nil {
		i.bytes = bytes.Clone(content)
	}
	return i
}

// reserve returns memory of limit bytes that begins with the image.
func (i *image) reserve(limit uint64) (memory []byte, release func(), err error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.closed {
		return nil, nil, ErrClosed
	}
	memory, release = reserve(max(limit, i.size))
	switch {
	case i.shared == nil:
		copy(memory, i.bytes)
	case release == nil: // it is in the heap, where nothing may be mapped
		err = i.shared.read(memory[:i.size])
	default:
		err = i.shared.mapInto(memory, i.size)
	}
	if err != nil && release != nil {
		release()
	}
	return memory, release, err
}

// beginsBlank reports whether a memory that began with the image has zeros in that page as
// long as nothing is written to it; nil: it began without an image.
func (i *image) beginsBlank(page int) bool { return i == nil || page >= len(i.blank) || i.blank[page] }

// close releases the image; memories that began with it keep what they have.
func (i *image) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closed && i.shared != nil {
		i.shared.close()
	}
	i.closed, i.bytes = true, nil
}
