package boltfile

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// disk is a file system of its own, which a test can fill to the page.
type disk struct{ dir, fill string }

func newDisk(t *testing.T) *disk {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("this machine lets the test mount nothing: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) }) // a file that could not be opened may stay mapped
	return &disk{dir, filepath.Join(dir, "fill")}
}

// leave fills the disk until so many pages are free.
func (d *disk) leave(t *testing.T, pages int) {
	t.Helper()
	d.empty(t)
	var s syscall.Statfs_t
	require.NoError(t, syscall.Statfs(d.dir, &s))
	require.NoError(t, os.WriteFile(d.fill, make([]byte, max(0, int64(s.Bfree)-int64(pages))*s.Bsize), 0o600))
}

func (d *disk) empty(t *testing.T) {
	t.Helper()
	require.NoError(t, os.RemoveAll(d.fill))
}

// TestAFullDiskFailsAWriteWholeAndNothingElse has the disk be full at each page that a
// write needs: it fails with one line, what was acknowledged before stays, a write
// afterwards works once there is room, by the same file and by one opened anew.
func TestAFullDiskFailsAWriteWholeAndNothingElse(t *testing.T) {
	value1, value2 := bytes.Repeat([]byte("1"), 30_000), bytes.Repeat([]byte("2"), 90_000)
	failures := 0
	for free := 0; ; free++ {
		d := newDisk(t)
		path := filepath.Join(d.dir, "f.db")
		f, err := Open(path, testOptions)
		require.NoError(t, err)
		before := Op{Bucket: []string{"a"}, Key: "before", Value: value1}
		require.NoError(t, f.Write(before))

		d.leave(t, free)
		failed := f.Write(Op{Bucket: []string{"a"}, Key: "before", Value: value2}, Op{Bucket: []string{"b"}, Key: "k", Value: value2})
		if failed != nil {
			failures++
			require.ErrorIs(t, failed, syscall.ENOSPC)
			require.ErrorIs(t, failed, ErrFull)
			require.Equal(t, path+": the disk is full: make room, and try again: write "+path+": no space left on device", failed.Error())
			require.Equal(t, value1, value(t, f, "before", "a"), "%d pages free", free)
			require.Nil(t, value(t, f, "k", "b"))
		}
		d.empty(t)
		require.NoError(t, f.Write(Op{Bucket: []string{"c"}, Key: "after", Value: value2}), "%d pages free", free)
		require.NoError(t, f.Close())

		f, err = Open(path, testOptions)
		require.NoError(t, err, "%d pages free", free)
		require.Equal(t, failed == nil, bytes.Equal(value2, value(t, f, "before", "a")))
		require.Equal(t, failed == nil, value(t, f, "k", "b") != nil)
		require.Equal(t, value2, value(t, f, "after", "c"))
		require.NoError(t, f.Close())
		if failed == nil {
			break
		}
	}
	require.Greater(t, failures, 20)
}

// TestAFileThatAFullDiskDidNotLetBeginIsBegunLater: what a first start left on a full disk
// keeps no later one from starting.
func TestAFileThatAFullDiskDidNotLetBeginIsBegunLater(t *testing.T) {
	for free := 0; ; free++ {
		d := newDisk(t)
		path := filepath.Join(d.dir, "f.db")
		d.leave(t, free)
		f, err := Open(path, testOptions)
		if err == nil {
			require.NoError(t, f.Close())
			require.Positive(t, free)
			return
		}
		require.ErrorIs(t, err, syscall.ENOSPC, "%d pages free", free)
		d.empty(t)
		opts := testOptions
		opts.SetAside = true
		f, err = Open(path, opts)
		require.NoError(t, err, "%d pages free", free)
		require.NoError(t, f.Write(Op{Bucket: []string{"a"}, Key: "k", Value: []byte("v")}))
		require.NoError(t, f.Close())
	}
}

// TestAFileThatCanOnlyBeReadIsReadAndLaterWritten opens it on a file system that is
// read-only, until somebody mounts it for writing again.
func TestAFileThatCanOnlyBeReadIsReadAndLaterWritten(t *testing.T) {
	d := newDisk(t)
	remount := func(flags uintptr) {
		require.NoError(t, syscall.Mount("none", d.dir, "", syscall.MS_REMOUNT|flags, ""))
	}
	path := filepath.Join(d.dir, "f.db")
	f := openFile(t, path)
	require.NoError(t, f.Write(Op{Bucket: []string{"a"}, Key: "k", Value: []byte("v")}))
	require.NoError(t, f.Close())
	remount(syscall.MS_RDONLY)
	f = openFile(t, path)
	more := Op{Bucket: []string{"a"}, Key: "more", Value: []byte("w")}
	for range 2 {
		err := f.Write(more)
		require.ErrorIs(t, err, syscall.EROFS)
		require.Equal(t, path+": nothing can be written: read-only file system", err.Error())
		require.Equal(t, []byte("v"), value(t, f, "k", "a"))
	}
	remount(0)
	require.NoError(t, f.Write(more))
	require.Equal(t, []byte("w"), value(t, f, "more", "a"))
	_, err := Open(path, testOptions)
	require.ErrorIs(t, err, ErrLocked)
}

func TestANewFileNeedsAFileSystemThatCanBeWritten(t *testing.T) {
	d := newDisk(t)
	require.NoError(t, syscall.Mount("none", d.dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	_, err := Open(filepath.Join(d.dir, "f.db"), testOptions)
	require.ErrorIs(t, err, syscall.EROFS)
}

// TestATornWriteNeverHappened ends a write after each half page, and within its meta page:
// what is read is the value before, or the one that was being written once all of it is
// there.
func TestATornWriteNeverHappened(t *testing.T) {
	before, after := twoVersions(t)
	page := os.Getpagesize()
	head := 2 * page // the meta pages are written last
	for end := head; end <= len(after); end += page / 2 {
		torn := append(bytes.Clone(after[:end]), before[min(end, len(before)):]...)
		copy(torn, before[:head])
		require.Equal(t, "1", reopened(t, torn), "torn at %d", end)
	}
	for end := 0; end <= head; end += 8 {
		torn := append(bytes.Clone(after[:end]), before[end:head]...)
		got := reopened(t, append(torn, after[head:]...))
		require.Contains(t, []string{"1", "2"}, got, "torn at %d", end)
	}
	require.Equal(t, "2", reopened(t, after))
}

// TestAFileThatWasCutIsDamaged wherever it was, down to nothing, which is a new one.
func TestAFileThatWasCutIsDamaged(t *testing.T) {
	_, after := twoVersions(t)
	for end := 0; end < len(after); end += os.Getpagesize() / 2 {
		want := "damaged"
		if end == 0 {
			want = ""
		}
		require.Equal(t, want, reopened(t, after[:end]), "cut at %d", end)
	}
}

// twoVersions returns a file before and after a write.
func twoVersions(t *testing.T) (before, after []byte) {
	t.Helper()
	f := openFile(t, filepath.Join(t.TempDir(), "f.db"))
	for _, digit := range []string{"0", "1", "2"} {
		before = after
		require.NoError(t, f.Write(Op{Bucket: []string{"a"}, Key: "k", Value: bytes.Repeat([]byte(digit), 20_000)}))
		var size int64 // bbolt grows the file ahead of use; what is cut must be in use
		require.NoError(t, f.View(func(tx *bbolt.Tx) error {
			size = tx.Size()
			return nil
		}))
		content, err := os.ReadFile(f.Path())
		require.NoError(t, err)
		after = content[:size]
	}
	return before, after
}

// reopened opens a file of that content: the digit that its value is made of, "damaged"
// when it is refused as that, empty when there is no value.
func reopened(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.db")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	f, err := Open(path, testOptions)
	if err != nil {
		require.ErrorIs(t, err, ErrCorrupt)
		return "damaged"
	}
	defer func() { require.NoError(t, f.Close()) }()
	got := value(t, f, "k", "a")
	if len(got) == 0 {
		return ""
	}
	require.Equal(t, bytes.Repeat(got[:1], 20_000), got)
	return string(got[:1])
}
