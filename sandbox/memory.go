package sandbox

import (
	"os"
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"
)

// Memory is the linear memory of one instance: address space reserved up to the
// module's limit, in which growing moves nothing and what was never touched costs
// nothing. The zero value is ready, for one instance; its figures may be read at any
// time.
type Memory struct {
	size    atomic.Uint64
	most    atomic.Uint64
	refused atomic.Bool
	starved atomic.Bool
	crowded atomic.Bool
	budget  *Budget
	takes   func(size uint64) bool // see [Guest]
	limit   uint64                 // bytes
	least   uint64                 // what it begins with
	start   *image                 // of which; nil: zeros
	bytes   []byte
	unmap   func()
}

// Size is how large the memory is, in bytes.
func (m *Memory) Size() uint64 { return m.size.Load() }

// Most is the largest size that it has had, in bytes.
func (m *Memory) Most() uint64 { return m.most.Load() }

// Refused reports whether the instance asked for more than its limit.
func (m *Memory) Refused() bool { return m.refused.Load() }

// Starved reports whether the instance asked for more than was left of its budget.
func (m *Memory) Starved() bool { return m.starved.Load() }

// Crowded reports whether the instance asked for more than others have left to it.
func (m *Memory) Crowded() bool { return m.crowded.Load() }

// prepare has the memory of a new instance begin with start, unless that is nil.
func (m *Memory) prepare(limit uint64, start *image) (err error) {
	m.limit = limit
	if start == nil {
		return nil
	}
	if m.bytes, m.unmap, err = start.reserve(limit); err != nil {
		return err
	}
	m.start, m.least = start, start.size
	return nil
}

// Allocate implements [experimental.MemoryAllocator]. The limit that wazero knows is
// the module's own: the node's is kept here, so that what was refused is known.
func (m *Memory) Allocate(_, declared uint64) experimental.LinearMemory {
	declared = min(declared, m.limit)
	if m.bytes == nil {
		m.bytes, m.unmap = reserve(declared)
	}
	m.bytes = m.bytes[:declared]
	return m
}

// Reallocate implements [experimental.LinearMemory].
func (m *Memory) Reallocate(size uint64) []byte {
	size = max(size, m.least)
	if size > uint64(len(m.bytes)) {
		m.refused.Store(true)
		return nil
	}
	before := m.size.Load()
	if m.takes != nil && !m.takes(size) {
		m.crowded.Store(true)
		return nil
	}
	if !m.budget.TakeMemory(size - before) {
		m.starved.Store(true)
		if m.takes != nil {
			m.takes(before)
		}
		return nil
	}
	m.size.Store(size)
	m.most.Store(max(size, m.most.Load()))
	return m.bytes[:size]
}

// trim gives back pages of which the guest has copies for nothing: those that are zero, and
// began so. Go's runtime clears more than it uses. No host function may be about to write
// to them.
func (m *Memory) trim() {
	if m.unmap != nil && os.Getpagesize() == systemPage { // else it is in the heap, or no page is known
		dropPages(m.bytes[:min(m.Size(), maxTrimmed)], func(page int, content []byte) bool {
			return m.start.beginsBlank(page) && isBlank(content)
		})
	}
}

// maxTrimmed is how much of a memory is looked at, from its beginning: some milliseconds' work.
const maxTrimmed = 16 << 20

// Free implements [experimental.LinearMemory]. Freeing twice is not an error.
func (m *Memory) Free() {
	if m.unmap != nil {
		m.unmap()
	}
	m.bytes, m.unmap = nil, nil
	freed := m.size.Swap(0)
	m.budget.GiveMemory(freed)
	if m.takes != nil && freed > 0 {
		m.takes(0)
	}
}
