package boltfile

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// FuzzOpenTakesOnlyWhatBboltCanUse changes real databases, whose meta pages
// may stay valid. It reads each byte a bounded number of times, whatever the pages say, and
// bbolt reads, writes and checks what it accepts.
func FuzzOpenTakesOnlyWhatBboltCanUse(f *testing.F) {
	bases := smallDatabases(f)
	for i := range bases {
		f.Add(uint8(i), false, []byte{})
		f.Add(uint8(i), true, []byte{0, 12, 0, 4, 255, 255, 255, 127})
	}
	f.Fuzz(func(t *testing.T, base uint8, resum bool, changes []byte) {
		content := bytes.Clone(bases[int(base)%len(bases)])
		for ; len(changes) >= 4; changes = changes[4:] {
			content = change(content, [4]byte(changes))
		}
		if resum {
			setChecksums(content)
		}
		file := &countingReader{content: content}
		err := verify(file, int64(len(content)))
		require.LessOrEqual(t, file.largest, largestPage)
		require.LessOrEqual(t, file.total, 1<<20+64*len(content))
		if err == nil {
			useDatabase(t, content)
		}
	})
}

// change does one change of four bytes: at which byte of which page, and what.
func change(content []byte, c [4]byte) []byte {
	if len(content) == 0 {
		return content
	}
	at := (int(c[0])<<10 + int(c[1]&3)<<8 + int(c[2])) % len(content)
	switch c[1] >> 2 & 15 {
	case 0, 1, 2, 3:
		content[at] = c[3]
	case 4, 5, 6:
		content[at] ^= 1 << (c[3] & 7)
	case 7, 8:
		content[at] += c[3]
	case 9: // a page or a piece elsewhere
		copy(content[at:], content[int(c[3])<<10%len(content):][:min(1024, len(content)-int(c[3])<<10%len(content))])
	case 10:
		clear(content[at:min(at+int(c[3])*8, len(content))])
	case 11: // a cut
		return content[:at]
	case 12: // the numbers that are large
		for i := range min(8, int(c[3]&7)+1, len(content)-at) {
			content[at+i] = 0xFF
		}
	default: // within a page's header and table
		content[at&^1023+at&127] = c[3]
	}
	return content
}

// setChecksums makes the meta pages valid.
func setChecksums(content []byte) {
	for _, at := range []int{0, 1024, 4096} {
		if m := at + pageHeaderSize; len(content) >= m+metaSize {
			sum := fnv.New64a()
			sum.Write(content[m : m+metaSize-8])
			order.PutUint64(content[m+metaSize-8:], sum.Sum64())
		}
	}
}

// countingReader is a file, and what was read of it.
type countingReader struct {
	content        []byte
	total, largest int
}

// ReadAt implements [io.ReaderAt].
func (r *countingReader) ReadAt(b []byte, at int64) (int, error) {
	n, err := bytes.NewReader(r.content).ReadAt(b, at)
	r.total += n
	r.largest = max(r.largest, n)
	return n, err
}

// useDatabase has bbolt do everything with a database.
func useDatabase(t *testing.T, content []byte) {
	t.Helper()
	fd, err := unix.MemfdCreate("database", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	file := os.NewFile(uintptr(fd), "database")
	_, err = file.WriteAt(content, 0)
	require.NoError(t, err)
	db, err := bbolt.Open("database", 0o600, &bbolt.Options{
		NoSync: true, NoGrowSync: true, FreelistType: bbolt.FreelistMapType, NoFreelistSync: true,
		OpenFile: func(string, int, os.FileMode) (*os.File, error) { return file, nil },
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, check(db))
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			if b == nil {
				return nil
			}
			return useBucket(b)
		})
	}))
	require.NoError(t, check(db))
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		var names [][]byte
		_ = tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			if b != nil {
				names = append(names, bytes.Clone(name))
			}
			return nil
		})
		for _, name := range names {
			if err := tx.DeleteBucket(name); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, check(db))
	info, err := file.Stat()
	require.NoError(t, err)
	require.NoError(t, verify(file, info.Size()))
}

// useBucket reads and replaces all values, and writes some more.
func useBucket(b *bbolt.Bucket) error {
	var keys [][]byte
	if err := b.ForEach(func(k, v []byte) error {
		if v == nil {
			return useBucket(b.Bucket(k))
		}
		keys = append(keys, bytes.Clone(k))
		return nil
	}); err != nil {
		return err
	}
	for i, k := range keys {
		var err error
		if i%3 == 0 {
			err = b.Delete(k)
		} else {
			err = b.Put(k, bytes.Repeat([]byte{1}, i%40))
		}
		if err != nil {
			return err
		}
	}
	return b.Put([]byte("one more"), make([]byte, 300))
}

// smallDatabases are databases of small pages and of every shape: empty, of one leaf, with
// buckets in buckets, inline and not, with values over several pages, with branches, with
// free pages that are listed and that are not.
func smallDatabases(t testing.TB) (list [][]byte) {
	t.Helper()
	for i, fill := range []func(*bbolt.Tx) error{
		func(*bbolt.Tx) error { return nil },
		func(tx *bbolt.Tx) error { return fillBucket(tx, "small", 3, 10, 0) },
		func(tx *bbolt.Tx) error { return fillBucket(tx, "deep", 4, 40, 3) },
		func(tx *bbolt.Tx) error { return fillBucket(tx, "large", 5, 2500, 1) },
		func(tx *bbolt.Tx) error { return fillBucket(tx, "many", 150, 30, 0) },
		func(tx *bbolt.Tx) error { return fillBucket(tx, "many", 150, 30, 0) },
	} {
		path := filepath.Join(t.TempDir(), fmt.Sprint(i))
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: smallestPage, NoSync: true, NoFreelistSync: i%2 == 1})
		require.NoError(t, err)
		require.NoError(t, db.Update(fill))
		require.NoError(t, db.Update(func(tx *bbolt.Tx) error { // what it had becomes free
			return fillBucket(tx, "another", 2, 600, 1)
		}))
		require.NoError(t, db.Close())
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, verify(bytes.NewReader(content), int64(len(content))))
		list = append(list, content)
	}
	return list
}

func fillBucket(in bucketOwner, name string, values, size, depth int) error {
	b, err := in.CreateBucketIfNotExists([]byte(name))
	if err != nil {
		return err
	}
	for i := range values {
		if err := b.Put(fmt.Appendf(nil, "key %03d", i), bytes.Repeat([]byte{'v'}, size+i)); err != nil {
			return err
		}
	}
	if depth == 0 {
		return nil
	}
	return fillBucket(b, name, values, size, depth-1)
}
