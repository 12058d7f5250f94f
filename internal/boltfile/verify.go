package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"

	"go.etcd.io/bbolt"
)

// The parts of bbolt's format, version 2, that are looked at; sizes are in bytes. Numbers
// are in the machine's byte order.
const (
	pageHeaderSize   = 16 // id, flags, count, overflow
	elementSize      = 16 // of a page's table, both in leaves and in branches
	bucketHeaderSize = 16 // root page, sequence
	metaSize         = 64 // with its checksum, which is the last field
	metaMagic        = 0xED0CDAED
	metaVersion      = 2

	pageBranch   = 0x01
	pageLeaf     = 0x02
	pageMeta     = 0x04
	pageFreelist = 0x10

	leafBucket = 0x01

	smallestPage, largestPage = 1 << 10, 1 << 16
	// maxDepth bounds the levels of pages, those of nested buckets included. Trees branch at
	// least in two, so that none of a real file comes near it.
	maxDepth = 100
	// lastTransaction leaves enough of them.
	lastTransaction = 1 << 62
	// longFreelist is the count of a freelist whose real count comes first in it.
	longFreelist = 0xFFFF
	// noFreelist is the number of a freelist that was not written: free are then the pages
	// that are not in use.
	noFreelist = ^uint64(0)
)

var order = binary.NativeEndian

// verify reads the structure of a database: what it accepts, bbolt can open, read, write
// and check. bbolt's own check believes what pages say of themselves, and a damaged file
// has it use all memory. This one looks at each page once at most, in the time that it takes to read
// them, and its memory is a bit for each page and a few keys. Values are not looked
// at: bbolt has no checksum of them.
func verify(file io.ReaderAt, length int64) error {
	m, err := newestMeta(file, length)
	if err != nil {
		return err
	}
	v := &verifier{
		table:    window{file: file, chunk: m.pageSize},
		data:     window{file: file, chunk: m.pageSize},
		pageSize: m.pageSize,
		high:     m.high,
		seen:     make([]uint64, m.high/64+1),
	}
	for id := range uint64(2) {
		if _, err := v.page(id, pageMeta); err != nil {
			return err
		}
	}
	if m.freelist != noFreelist {
		if err := v.freelist(m.freelist); err != nil {
			return err
		}
	}
	if err := v.tree(m.root, keyRange{}, 0); err != nil || m.freelist == noFreelist {
		return err
	}
	for id := range m.high {
		if !v.isSeen(id) {
			return fmt.Errorf("page %d is neither in use nor free", id)
		}
	}
	return nil
}

// meta is the description of a whole database.
type meta struct {
	pageSize int64
	root     uint64
	freelist uint64
	high     uint64 // pages
	txid     uint64
}

// newestMeta returns the newer one of those that are valid, of two: while one is written,
// the other one holds.
func newestMeta(file io.ReaderAt, length int64) (meta, error) {
	newest, err := readMeta(file, 0)
	if err == nil {
		second, err := readMeta(file, newest.pageSize)
		if err == nil && second.txid > newest.txid {
			if second.pageSize != newest.pageSize {
				return meta{}, fmt.Errorf("meta pages: pages of %d and of %d bytes", newest.pageSize, second.pageSize)
			}
			newest = second
		}
	} else if newest, err = secondMeta(file, length, err); err != nil {
		return meta{}, err
	}
	size := newest.pageSize
	switch {
	case size < smallestPage || size > largestPage || size&(size-1) != 0:
		return newest, fmt.Errorf("pages of %d bytes", size)
	case newest.high < 4 || newest.high > uint64(length/size):
		return newest, fmt.Errorf("it says that it has %d pages, and there are %d", newest.high, length/size)
	case newest.txid > lastTransaction:
		return newest, fmt.Errorf("transaction %d", newest.txid)
	}
	return newest, nil
}

// secondMeta finds it without the first, at each size that a page may have.
func secondMeta(file io.ReaderAt, length int64, cause error) (meta, error) {
	for at := int64(smallestPage); at <= largestPage && at < length; at *= 2 {
		if m, err := readMeta(file, at); err == nil {
			if m.pageSize == at {
				return m, nil
			}
			break
		}
	}
	return meta{}, fmt.Errorf("no valid meta page: %w", cause)
}

// readMeta reads a meta page. It finds valid what bbolt does.
func readMeta(file io.ReaderAt, at int64) (meta, error) {
	var b [metaSize]byte
	if _, err := file.ReadAt(b[:], at+pageHeaderSize); err != nil {
		return meta{}, err
	}
	sum := fnv.New64a()
	sum.Write(b[:metaSize-8])
	switch {
	case order.Uint32(b[0:]) != metaMagic || order.Uint32(b[4:]) != metaVersion:
		return meta{}, errors.New("it is not a database")
	case sum.Sum64() != order.Uint64(b[metaSize-8:]):
		return meta{}, errors.New("its checksum is wrong")
	}
	return meta{
		pageSize: int64(order.Uint32(b[8:])),
		root:     order.Uint64(b[16:]),
		freelist: order.Uint64(b[32:]),
		high:     order.Uint64(b[40:]),
		txid:     order.Uint64(b[48:]),
	}, nil
}

// verifier goes through the pages of a database.
type verifier struct {
	table, data window // of what is read next: a page's table, and what that points to
	pageSize    int64
	high        uint64
	seen        []uint64 // a bit for each page
}

// window reads a file in small pieces, so that what is read in order is read once.
type window struct {
	file  io.ReaderAt
	chunk int64
	at    int64
	buf   []byte
}

// bytes returns a piece of the file, valid until the next call.
func (w *window) bytes(at, n int64) ([]byte, error) {
	if at < w.at || at+n > w.at+int64(len(w.buf)) {
		if want := max(n, w.chunk); int64(cap(w.buf)) < want {
			w.buf = make([]byte, want)
		}
		got, err := w.file.ReadAt(w.buf[:cap(w.buf)], at)
		w.at, w.buf = at, w.buf[:got]
		if int64(got) < n {
			return nil, fmt.Errorf("byte %d: %w", at, err)
		}
	}
	return w.buf[at-w.at:][:n], nil
}

// page is a page, or what lies in a value like one.
type page struct {
	id         uint64
	flags      uint16
	count      int
	begin, end int64 // in the file, with the pages that it flows over into
}

func (v *verifier) isSeen(id uint64) bool { return v.seen[id/64]&(1<<(id%64)) != 0 }

func (v *verifier) see(id uint64) error {
	if id >= v.high {
		return fmt.Errorf("page %d of %d", id, v.high)
	}
	if v.isSeen(id) {
		return fmt.Errorf("page %d is used twice", id)
	}
	v.seen[id/64] |= 1 << (id % 64)
	return nil
}

// page reads a page's header, which must be of one of the kinds. Nothing else may have used the page.
func (v *verifier) page(id uint64, kinds uint16) (page, error) {
	if err := v.see(id); err != nil {
		return page{}, err
	}
	begin := int64(id) * v.pageSize
	b, err := v.table.bytes(begin, pageHeaderSize)
	if err != nil {
		return page{}, err
	}
	p := page{id: id, flags: order.Uint16(b[8:]), count: int(order.Uint16(b[10:])), begin: begin}
	overflow := uint64(order.Uint32(b[12:]))
	switch single := p.flags&(p.flags-1) == 0; {
	case order.Uint64(b) != id:
		return p, fmt.Errorf("page %d says it is page %d", id, order.Uint64(b))
	case !single || p.flags&kinds == 0:
		return p, fmt.Errorf("page %d is of the wrong kind, %#x", id, p.flags)
	case overflow >= v.high-id:
		return p, fmt.Errorf("page %d flows over into %d pages, past the end", id, overflow)
	case p.flags == pageMeta:
		return p, nil // it has one page, whatever its header says
	}
	p.end = begin + int64(overflow+1)*v.pageSize
	for i := id + 1; i <= id+overflow; i++ {
		if err := v.see(i); err != nil {
			return p, err
		}
	}
	return p, nil
}

// freelist marks the pages that are free.
func (v *verifier) freelist(id uint64) error {
	p, err := v.page(id, pageFreelist)
	if err != nil {
		return fmt.Errorf("freelist: %w", err)
	}
	at, count := p.begin+pageHeaderSize, uint64(p.count)
	if count == longFreelist {
		b, err := v.table.bytes(at, 8)
		if err != nil {
			return err
		}
		at, count = at+8, order.Uint64(b)
	}
	if count > uint64(p.end-at)/8 {
		return fmt.Errorf("freelist: %d entries in %d bytes", count, p.end-at)
	}
	for range count {
		b, err := v.table.bytes(at, 8)
		if err != nil {
			return err
		}
		if err := v.see(order.Uint64(b)); err != nil {
			return fmt.Errorf("freelist: %w", err)
		}
		at += 8
	}
	return nil
}

// keyRange is what the keys of a page have to be: from first on, and below the other. Nil
// bounds nothing. A branch has its pages' first keys: bbolt finds them by that, and would
// write a page twice whose first key is another one, though its check lets it pass.
type keyRange struct{ first, below []byte }

// tree goes through a bucket's pages, from one page down. Only the root may be empty.
func (v *verifier) tree(id uint64, keys keyRange, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("page %d is more than %d levels deep", id, maxDepth)
	}
	p, err := v.page(id, pageBranch|pageLeaf)
	if err != nil {
		return err
	}
	if p.count == 0 && (p.flags == pageBranch || keys.first != nil) {
		return fmt.Errorf("page %d is empty", id)
	}
	if p.flags == pageLeaf {
		return v.leaf(p, keys, depth)
	}
	return v.branch(p, keys, depth)
}

func (v *verifier) branch(p page, keys keyRange, depth int) error {
	list := newElements(p, keys)
	e, err := list.read(v)
	if err != nil {
		return err
	}
	for range p.count - 1 {
		next, err := list.read(v)
		if err != nil {
			return err
		}
		if err := v.tree(e.child, keyRange{e.key, next.key}, depth+1); err != nil {
			return err
		}
		e = next
	}
	return v.tree(e.child, keyRange{e.key, keys.below}, depth+1)
}

func (v *verifier) leaf(p page, keys keyRange, depth int) error {
	list := newElements(p, keys)
	for range p.count {
		e, err := list.read(v)
		if err != nil {
			return err
		}
		if e.isBucket {
			if err := v.bucket(p, e, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// bucket goes through a nested bucket. A small one lies in its value like a leaf.
func (v *verifier) bucket(in page, e element, depth int) error {
	if e.size < bucketHeaderSize {
		return fmt.Errorf("page %d: a bucket of %d bytes", in.id, e.size)
	}
	b, err := v.data.bytes(e.value, bucketHeaderSize)
	if err != nil {
		return err
	}
	if root := order.Uint64(b); root != 0 {
		if e.size != bucketHeaderSize {
			return fmt.Errorf("page %d: a bucket elsewhere of %d bytes", in.id, e.size)
		}
		return v.tree(root, keyRange{}, depth+1)
	}
	if e.size < bucketHeaderSize+pageHeaderSize || e.size > v.pageSize {
		return fmt.Errorf("page %d: an inline bucket of %d bytes", in.id, e.size)
	}
	inline := page{id: in.id, flags: pageLeaf, begin: e.value + bucketHeaderSize, end: e.value + e.size}
	if b, err = v.data.bytes(inline.begin, pageHeaderSize); err != nil {
		return err
	}
	if order.Uint64(b) != 0 || order.Uint16(b[8:]) != pageLeaf || order.Uint32(b[12:]) != 0 {
		return fmt.Errorf("page %d: an inline bucket is not a leaf of no page", in.id)
	}
	inline.count = int(order.Uint16(b[10:]))
	list := newElements(inline, keyRange{})
	for range inline.count {
		nested, err := list.read(v)
		if err != nil {
			return err
		}
		if nested.isBucket {
			return fmt.Errorf("page %d: a bucket in an inline bucket", in.id)
		}
	}
	if list.data != inline.end {
		return fmt.Errorf("page %d: an inline bucket of the wrong size", in.id)
	}
	return nil
}

// elements reads a page's elements in order. What they hold lies behind the table, one
// after the other without a gap: that is how bbolt writes it, and it bounds the work.
type elements struct {
	page
	keys  keyRange
	index int
	data  int64 // where the next one's data begin
	last  []byte
}

func newElements(p page, keys keyRange) *elements {
	return &elements{page: p, keys: keys, data: p.begin + pageHeaderSize + int64(p.count)*elementSize}
}

// element is one of a branch or of a leaf.
type element struct {
	key         []byte
	child       uint64 // of a branch
	isBucket    bool   // of a leaf
	value, size int64  // of a leaf, in the file
}

func (l *elements) read(v *verifier) (element, error) {
	at := l.begin + pageHeaderSize + int64(l.index)*elementSize
	if l.data > l.end {
		return element{}, fmt.Errorf("page %d: %d elements do not fit", l.id, l.count)
	}
	b, err := v.table.bytes(at, elementSize)
	if err != nil {
		return element{}, err
	}
	var e element
	var position, length int64
	if l.flags == pageBranch {
		position, length, e.child = int64(order.Uint32(b)), int64(order.Uint32(b[4:])), order.Uint64(b[8:])
	} else {
		flags := order.Uint32(b)
		if flags > leafBucket {
			return e, fmt.Errorf("page %d: element %d has the flags %#x", l.id, l.index, flags)
		}
		e.isBucket = flags == leafBucket
		position, length, e.size = int64(order.Uint32(b[4:])), int64(order.Uint32(b[8:])), int64(order.Uint32(b[12:]))
	}
	if at+position != l.data || length == 0 || length > bbolt.MaxKeySize || e.size > bbolt.MaxValueSize || l.data+length+e.size > l.end {
		return e, fmt.Errorf("page %d: element %d is not where it has to be", l.id, l.index)
	}
	key, err := v.data.bytes(l.data, length)
	if err != nil {
		return e, err
	}
	e.key = bytes.Clone(key)
	if err := l.check(e.key); err != nil {
		return e, err
	}
	e.value = l.data + length
	l.data, l.last = e.value+e.size, e.key
	l.index++
	return e, nil
}

// check compares a key with those before it and above it.
func (l *elements) check(key []byte) error {
	switch {
	case l.last != nil && bytes.Compare(l.last, key) >= 0:
		return fmt.Errorf("page %d: key %d is not above the one before it", l.id, l.index)
	case l.index == 0 && l.keys.first != nil && !bytes.Equal(key, l.keys.first),
		l.keys.below != nil && bytes.Compare(key, l.keys.below) >= 0:
		return fmt.Errorf("page %d: key %d belongs to another page", l.id, l.index)
	}
	return nil
}
