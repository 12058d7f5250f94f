package boltfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// sheet is a database with pages of 1 KiB of every kind, of which single fields are changed.
// Its root has the buckets "many", a branch, and last "small", which lies inline in it.
type sheet struct {
	b                          []byte
	root, branch, first, other int // pages; first and other: the branch's first two leaves
	freelist, high             int
}

func newSheet(t *testing.T) *sheet {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: smallestPage, NoSync: true})
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		return errors.Join(fillBucket(tx, "many", 60, 30, 0), fillBucket(tx, "large", 2, 2500, 0), fillBucket(tx, "small", 2, 10, 0))
	}))
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return fillBucket(tx, "many", 1, 30, 0) }))
	s := &sheet{}
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		s.branch = int(tx.Bucket([]byte("many")).Root())
		return nil
	}))
	require.NoError(t, db.Close())
	s.b, err = os.ReadFile(path)
	require.NoError(t, err)
	m, err := newestMeta(bytes.NewReader(s.b), int64(len(s.b)))
	require.NoError(t, err)
	newest := s.page(int(m.txid % 2))[pageHeaderSize:][:metaSize]
	for page := range 2 {
		copy(s.page(page)[pageHeaderSize:], newest)
	}
	s.root, s.freelist, s.high = int(m.root), int(m.freelist), int(m.high)
	s.first, s.other = s.child(0), s.child(1)
	return s
}

func (s *sheet) verify() error { return verify(bytes.NewReader(s.b), int64(len(s.b))) }

// page is where a page begins.
func (s *sheet) page(id int) []byte { return s.b[id*smallestPage:] }

// element is the i-th of a page's table; counted from its end if i is negative.
func (s *sheet) element(page, i int) []byte {
	if i < 0 {
		i += int(order.Uint16(s.page(page)[10:]))
	}
	return s.page(page)[pageHeaderSize+i*elementSize:]
}

func (s *sheet) child(i int) int { return int(order.Uint64(s.element(s.branch, i)[8:])) }

// leafKey and leafValue are those of a leaf's i-th element.
func (s *sheet) leafKey(page, i int) []byte {
	e := s.element(page, i)
	return e[order.Uint32(e[4:]):]
}

func (s *sheet) leafValue(page, i int) []byte {
	return s.leafKey(page, i)[order.Uint32(s.element(page, i)[8:]):]
}

// meta changes a field of both meta pages.
func (s *sheet) meta(at int, value uint64) {
	for page := range 2 {
		b := s.page(page)[pageHeaderSize+at:]
		if at == 8 { // the page's size
			order.PutUint32(b, uint32(value))
		} else {
			order.PutUint64(b, value)
		}
	}
	setChecksums(s.b)
}

// grow adds to a number of 32 bits.
func grow(b []byte, by int) { order.PutUint32(b, uint32(int(order.Uint32(b))+by)) }

// TestEachFaultOfAFileIsNamed changes one field at a time of a good file.
func TestEachFaultOfAFileIsNamed(t *testing.T) {
	const keyBytes = 7
	for fault, c := range map[string]struct {
		change func(s *sheet)
		want   string
	}{
		"none":                           {func(*sheet) {}, ""},
		"no magic number":                {func(s *sheet) { clear(s.b[:2*smallestPage]) }, "no valid meta page: it is not a database"},
		"a checksum":                     {func(s *sheet) { s.page(0)[30]++; s.page(1)[30]++ }, "no valid meta page: its checksum is wrong"},
		"small pages":                    {func(s *sheet) { s.meta(8, smallestPage/2) }, "pages of 512 bytes"},
		"large pages":                    {func(s *sheet) { s.meta(8, 2*largestPage) }, "pages of 131072 bytes"},
		"odd pages":                      {func(s *sheet) { s.meta(8, 3000) }, "pages of 3000 bytes"},
		"too few pages":                  {func(s *sheet) { s.meta(40, 3) }, "it says that it has 3 pages"},
		"more pages than there are":      {func(s *sheet) { s.meta(40, uint64(len(s.b)/smallestPage+1)) }, "it says that it has"},
		"transactions used up":           {func(s *sheet) { s.meta(48, lastTransaction+1) }, "transaction 46116"},
		"a last transaction":             {func(s *sheet) { s.meta(48, lastTransaction) }, ""},
		"a root past the end":            {func(s *sheet) { s.meta(16, uint64(s.high)) }, " of "},
		"a freelist elsewhere":           {func(s *sheet) { s.meta(32, uint64(s.root)) }, "freelist: page %root is of the wrong kind, 0x2"},
		"another page's number":          {func(s *sheet) { s.page(s.first)[0]++ }, "page %first says it is page"},
		"two kinds at once":              {func(s *sheet) { s.page(s.first)[8] = pageLeaf | pageBranch }, "page %first is of the wrong kind, 0x3"},
		"a meta page in a tree":          {func(s *sheet) { s.page(s.first)[8] = pageMeta }, "page %first is of the wrong kind, 0x4"},
		"flowing over the end":           {func(s *sheet) { order.PutUint32(s.page(s.first)[12:], uint32(s.high-s.first)) }, "page %first flows over"},
		"flowing over up to the end":     {func(s *sheet) { order.PutUint32(s.page(s.first)[12:], uint32(s.high-s.first-1)) }, "is used twice"},
		"free pages that are not listed": {func(s *sheet) { s.meta(32, noFreelist) }, ""},
		"a freelist with too many":       {func(s *sheet) { order.PutUint16(s.page(s.freelist)[10:], 127) }, "freelist: 127 entries in 1008 bytes"},
		"a freelist with far too many": {func(s *sheet) {
			order.PutUint16(s.page(s.freelist)[10:], longFreelist)
			order.PutUint64(s.page(s.freelist)[pageHeaderSize:], 126)
		}, "freelist: 126 entries in 1000 bytes"},
		"a freelist with one too few":   {func(s *sheet) { s.page(s.freelist)[10]-- }, "is neither in use nor free"},
		"a free page that is in use":    {func(s *sheet) { s.page(s.freelist)[pageHeaderSize] = byte(s.freelist) }, "freelist: page %freelist is used twice"},
		"a free page past the end":      {func(s *sheet) { order.PutUint64(s.page(s.freelist)[pageHeaderSize:], uint64(s.high)) }, "freelist: page"},
		"a branch with nothing":         {func(s *sheet) { order.PutUint16(s.page(s.branch)[10:], 0) }, "page %branch is empty"},
		"a leaf with nothing":           {func(s *sheet) { order.PutUint16(s.page(s.first)[10:], 0) }, "page %first is empty"},
		"a circle":                      {func(s *sheet) { order.PutUint64(s.element(s.branch, 1)[8:], uint64(s.branch)) }, "page %branch is used twice"},
		"leaves that changed places":    {func(s *sheet) { s.element(s.branch, 0)[8], s.element(s.branch, 1)[8] = byte(s.other), byte(s.first) }, "page %other: key 0 belongs to another page"},
		"unknown flags":                 {func(s *sheet) { s.element(s.first, 1)[0] = 2 }, "page %first: element 1 has the flags 0x2"},
		"a gap":                         {func(s *sheet) { grow(s.element(s.first, 1)[4:], 1) }, "page %first: element 1 is not where it has to be"},
		"a key of nothing":              {func(s *sheet) { order.PutUint32(s.element(s.first, 0)[8:], 0) }, "page %first: element 0 is not where it has to be"},
		"a value past the end":          {func(s *sheet) { grow(s.element(s.first, -1)[12:], smallestPage) }, "is not where it has to be"},
		"a huge value":                  {func(s *sheet) { order.PutUint32(s.element(s.first, -1)[12:], 1<<31) }, "is not where it has to be"},
		"too many elements":             {func(s *sheet) { order.PutUint16(s.page(s.first)[10:], 1000) }, "page %first: 1000 elements do not fit"},
		"a key twice":                   {func(s *sheet) { copy(s.leafKey(s.first, 1), s.leafKey(s.first, 0)[:keyBytes]) }, "page %first: key 1 is not above the one before it"},
		"another first key":             {func(s *sheet) { s.leafKey(s.first, 0)[keyBytes-1]-- }, "page %first: key 0 belongs to another page"},
		"the next leaf's key":           {func(s *sheet) { copy(s.leafKey(s.first, -1), s.leafKey(s.other, 0)[:keyBytes]) }, "belongs to another page"},
		"a bucket without a header":     {func(s *sheet) { grow(s.element(s.root, -1)[12:], bucketHeaderSize-1-s.small()) }, "page %root: a bucket of 15 bytes"},
		"a bucket elsewhere and inline": {func(s *sheet) { s.leafValue(s.root, -1)[0] = byte(s.freelist) }, "page %root: a bucket elsewhere of"},
		"a bucket of another's page":    {func(s *sheet) { s.leafValue(s.root, 1)[0] = byte(s.freelist) }, "page %freelist is used twice"},
		"half an inline bucket":         {func(s *sheet) { grow(s.element(s.root, -1)[12:], bucketHeaderSize+pageHeaderSize-1-s.small()) }, "page %root: an inline bucket of 31 bytes"},
		"an inline branch":              {func(s *sheet) { s.leafValue(s.root, -1)[bucketHeaderSize+8] = pageBranch }, "page %root: an inline bucket is not a leaf of no page"},
		"an inline page with a number":  {func(s *sheet) { s.leafValue(s.root, -1)[bucketHeaderSize] = 9 }, "page %root: an inline bucket is not a leaf of no page"},
		"an inline page that overflows": {func(s *sheet) { s.leafValue(s.root, -1)[bucketHeaderSize+12] = 1 }, "page %root: an inline bucket is not a leaf of no page"},
		"an inline bucket in another":   {func(s *sheet) { s.leafValue(s.root, -1)[bucketHeaderSize+pageHeaderSize] = leafBucket }, "page %root: a bucket in an inline bucket"},
		"an inline bucket too large":    {func(s *sheet) { grow(s.element(s.root, -1)[12:], 1) }, "page %root: an inline bucket of the wrong size"},
	} {
		t.Run(fault, func(t *testing.T) {
			s := newSheet(t)
			c.change(s)
			err := s.verify()
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			want := c.want
			for name, page := range map[string]int{"%root": s.root, "%branch": s.branch, "%first": s.first, "%other": s.other, "%freelist": s.freelist} {
				want = string(bytes.ReplaceAll([]byte(want), []byte(name), fmt.Append(nil, page)))
			}
			require.ErrorContains(t, err, want)
		})
	}
}

// small is the size of the inline bucket.
func (s *sheet) small() int { return int(order.Uint32(s.element(s.root, -1)[12:])) }

// brokenDisk fails from the n-th read on.
type brokenDisk struct {
	io.ReaderAt
	n int
}

var errDisk = errors.New("the disk is broken")

func (d *brokenDisk) ReadAt(b []byte, at int64) (int, error) {
	if d.n--; d.n < 0 {
		return 0, errDisk
	}
	return d.ReaderAt.ReadAt(b, at)
}

func TestWhatCannotBeReadIsNotFoundGood(t *testing.T) {
	s := newSheet(t)
	reads := 0
	for ; ; reads++ {
		disk := &brokenDisk{bytes.NewReader(s.b), reads}
		err := verify(disk, int64(len(s.b)))
		if disk.n >= 0 {
			require.NoError(t, err)
			break
		}
		require.ErrorIs(t, err, errDisk, "read %d", reads)
	}
	require.Greater(t, reads, s.high/4)
}
