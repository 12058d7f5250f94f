package wire

import (
	"errors"
	"sync/atomic"
)

// maxAsking is how many bytes of what the other side asks are kept at once, in all its streams: as
// they come, and until they are answered. A stream that would have more is closed.
const maxAsking = 16 * MaxAsk

// errNoRoom is of a value for which there is no room beside the others.
var errNoRoom = errors.New("too many bytes are asked at once")

// room is what is left of a number of bytes. Its methods may be called concurrently; a nil one has
// no end.
type room struct{ left atomic.Int64 }

func newRoom(bytes int64) *room {
	r := &room{}
	r.left.Store(bytes)
	return r
}

// take takes some bytes, if there are as many.
func (r *room) take(bytes int) bool {
	if r == nil {
		return true
	}
	for {
		left := r.left.Load()
		if left < int64(bytes) {
			return false
		}
		if r.left.CompareAndSwap(left, left-int64(bytes)) {
			return true
		}
	}
}

// give gives them back.
func (r *room) give(bytes int) {
	if r != nil {
		r.left.Add(int64(bytes))
	}
}
