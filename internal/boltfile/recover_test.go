package boltfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

// kept are the options of a file that repairs itself. The copy is made at the end only, or
// when a test asks for it.
func kept(recovered *[]Recovery, log *bytes.Buffer) Options {
	opts := testOptions
	opts.SetAside, opts.CopyEvery = true, time.Hour
	opts.Recovered = func(r Recovery) { *recovered = append(*recovered, r) }
	opts.Logger = hclog.New(&hclog.LoggerOptions{Output: log})
	return opts
}

// copied makes a file with a value, and its last good copy.
func copied(t *testing.T, dir string, opts Options) (path string) {
	t.Helper()
	path = filepath.Join(dir, "f.db")
	f, err := Open(path, opts)
	require.NoError(t, err)
	require.NoError(t, f.Write(Op{Bucket: []string{"a"}, Key: "k", Value: []byte("v")}))
	require.NoError(t, f.Close())
	return path
}

// TestTheLastGoodCopyTakesADamagedFilesPlace, whatever became of the file.
func TestTheLastGoodCopyTakesADamagedFilesPlace(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"zeroed pages": func(t *testing.T, path string) {
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			clear(content[2*os.Getpagesize():])
			require.NoError(t, os.WriteFile(path, content, 0o600))
		},
		"cut":          func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 5000)) },
		"empty":        func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) },
		"lost":         func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"not database": func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte("text"), 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			var recovered []Recovery
			var log bytes.Buffer
			path := copied(t, t.TempDir(), kept(&recovered, &log))
			require.Empty(t, recovered)
			spoil(t, path)
			spoilt, readErr := os.ReadFile(path)

			f, err := Open(path, kept(&recovered, &log))
			require.NoError(t, err)
			require.Equal(t, []byte("v"), value(t, f, "k", "a"))
			require.Len(t, recovered, 1)
			r := recovered[0]
			require.Equal(t, path, r.Path)
			require.WithinDuration(t, time.Now(), r.Copied, time.Hour)
			require.ErrorIs(t, r.Cause, ErrCorrupt)
			require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("going on with its last good copy")), "%s", &log)
			require.Contains(t, log.String(), "copied="+r.Copied.UTC().Format(time.RFC3339))
			if readErr == nil && len(spoilt) > 0 {
				require.Contains(t, log.String(), "a damaged file was set aside")
				content, err := os.ReadFile(r.KeptAs)
				require.NoError(t, err)
				require.Equal(t, spoilt, content)
				require.Contains(t, log.String(), r.KeptAs)
			} else {
				require.Empty(t, r.KeptAs)
				require.Contains(t, log.String(), "a file was lost")
			}
			require.NoError(t, f.Write(Op{Bucket: []string{"a"}, Key: "k", Value: []byte("w")}))
			require.NoError(t, f.Close())
			f, err = Open(path, kept(&recovered, &log))
			require.NoError(t, err)
			require.Equal(t, []byte("w"), value(t, f, "k", "a"))
			require.NoError(t, f.Close())
			require.Len(t, recovered, 1, "once is enough")
		})
	}
}

// TestACopyThatIsDamagedAsWellIsSetAside, so that an empty file does not take it for the truth.
func TestACopyThatIsDamagedAsWellIsSetAside(t *testing.T) {
	var recovered []Recovery
	var log bytes.Buffer
	path := copied(t, t.TempDir(), kept(&recovered, &log))
	require.NoError(t, os.Truncate(path, 9000))
	require.NoError(t, os.Truncate(CopyPath(path), 9000))
	f, err := Open(path, kept(&recovered, &log))
	require.NoError(t, err)
	require.Nil(t, value(t, f, "k", "a"))
	require.NoError(t, f.Close())
	require.Len(t, recovered, 1)
	require.Zero(t, recovered[0].Copied)
	require.Contains(t, log.String(), "starting with an empty one")
	for _, name := range []string{path, CopyPath(path)} {
		aside, err := filepath.Glob(name + ".damaged-*")
		require.NoError(t, err)
		require.Len(t, aside, 1)
	}
}

// TestTheLastGoodCopyIsWrittenWhenTheFileChanged while the file is in use, and only then.
func TestTheLastGoodCopyIsWrittenWhenTheFileChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	opts := testOptions
	opts.CopyEvery = time.Millisecond
	f, err := Open(path, opts)
	require.NoError(t, err)
	for i := range 20 {
		require.NoError(t, f.Write(Op{Bucket: []string{"a"}, Key: "k", Value: fmt.Append(nil, i)}))
	}
	now, err := describe(path)
	require.NoError(t, err)
	isCopied := func() bool {
		copied, err := describe(CopyPath(path))
		return err == nil && copied == now
	}
	require.Eventually(t, isCopied, time.Minute, time.Millisecond)
	require.NoError(t, os.WriteFile(CopyPath(path), []byte("what is no copy"), 0o600))
	require.Eventually(t, isCopied, time.Minute, time.Millisecond)
	require.NoError(t, f.Close())
	copied, err := Open(CopyPath(path), testOptions)
	require.NoError(t, err)
	require.Equal(t, []byte("19"), value(t, copied, "k", "a"))
	require.NoError(t, copied.Close())

	before, err := os.Stat(CopyPath(path))
	require.NoError(t, err)
	f, err = Open(path, opts)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	after, err := os.Stat(CopyPath(path))
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after), "an unchanged file is not copied again")
}

// TestACopyGoesOnAsTheFileWhereThereIsNoRoomForTwo has a disk be full when the file is
// found damaged.
func TestACopyGoesOnAsTheFileWhereThereIsNoRoomForTwo(t *testing.T) {
	d := newDisk(t)
	var recovered []Recovery
	var log bytes.Buffer
	path := copied(t, d.dir, kept(&recovered, &log))
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	d.leave(t, 0)
	f, err := Open(path, kept(&recovered, &log))
	require.NoError(t, err)
	require.Equal(t, []byte("v"), value(t, f, "k", "a"))
	require.NoError(t, f.Close())
}

// TestAnotherProcessThatWaitedDoesNotTouchTheNewFile: while it waited for the lock, what it
// opened was set aside.
func TestAnotherProcessThatWaitedDoesNotTouchTheNewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	held, err := lock(path, testOptions)
	require.NoError(t, err)
	opts := testOptions
	opts.LockWait, opts.SetAside = time.Minute, true
	opened := make(chan *File)
	go func() {
		f, err := Open(path, opts)
		if err != nil {
			t.Error(err)
		}
		opened <- f
	}()
	good := openFile(t, filepath.Join(t.TempDir(), "f.db"))
	require.NoError(t, good.Write(Op{Bucket: []string{"a"}, Key: "k", Value: []byte("v")}))
	require.NoError(t, good.Close())
	aside, err := setAside(path, hclog.NewNullLogger())
	require.NoError(t, err)
	require.NoError(t, os.Rename(good.Path(), path))
	require.NoError(t, held.Close())
	f := <-opened
	require.NotNil(t, f)
	require.Equal(t, []byte("v"), value(t, f, "k", "a"))
	require.NoError(t, f.Close())
	left, err := filepath.Glob(path + ".damaged-*")
	require.NoError(t, err)
	require.Equal(t, []string{aside}, left)
}

// What bbolt cannot open is let go of, so that it can be set aside.
func TestAFileThatMakesTheDatabasePanicIsUnlocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	f, err := Open(path, testOptions)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	clear(content[2*os.Getpagesize():])
	require.NoError(t, os.WriteFile(path, content, 0o600))

	opts := testOptions
	opts.LockWait, opts.Logger = time.Millisecond, hclog.NewNullLogger()
	handle, err := lock(path, opts)
	require.NoError(t, err)
	_, err = openBolt(handle, opts)
	require.ErrorIs(t, err, ErrCorrupt)
	handle, err = lock(path, opts)
	require.NoError(t, err)
	require.NoError(t, handle.Close())
}

// TestWhatMustNotComeBackIsInNoCopy: where there is no room for a new copy, there is none.
func TestWhatMustNotComeBackIsInNoCopy(t *testing.T) {
	d := newDisk(t)
	path := filepath.Join(d.dir, "f.db")
	var recovered []Recovery
	var log bytes.Buffer
	f, err := Open(path, kept(&recovered, &log))
	require.NoError(t, err)
	require.NoError(t, f.Write(Op{Bucket: []string{"a"}, Key: "k", Value: []byte("secret")}, Op{Bucket: []string{"a"}, Key: "bulk", Value: make([]byte, 64<<10)}))
	require.NoError(t, f.Forget())
	before, err := os.Stat(CopyPath(path))
	require.NoError(t, err)
	require.NoError(t, f.Forget())
	after, err := os.Stat(CopyPath(path))
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after), "a copy that knows is left alone")
	require.NoError(t, f.Write(Op{Bucket: []string{"a"}, Key: "k"}))
	d.leave(t, 0)
	require.NoError(t, f.Forget())
	if copied, err := Open(CopyPath(path), testOptions); err == nil {
		require.Nil(t, value(t, copied, "k", "a"))
		require.NoError(t, copied.Close())
	}
	require.NoError(t, f.Close())
}

// TestACopyThatCannotBeRemovedIsTold: what must not come back could.
func TestACopyThatCannotBeRemovedIsTold(t *testing.T) {
	dir := t.TempDir()
	plain := openFile(t, filepath.Join(dir, "plain.db"))
	require.NoError(t, plain.Forget())
	require.NoFileExists(t, CopyPath(plain.Path()), "none is kept of it")

	var recovered []Recovery
	var log bytes.Buffer
	path := filepath.Join(dir, "f.db")
	f, err := Open(path, kept(&recovered, &log))
	require.NoError(t, err)
	require.NoError(t, f.Forget()) // there is one
	f.copying.Lock()
	require.NoError(t, os.Remove(CopyPath(path)))
	require.NoError(t, os.Mkdir(CopyPath(path), 0o700))
	touch(t, filepath.Join(CopyPath(path), "something"))
	f.copying.Unlock()
	require.Error(t, f.Forget())
	require.NoError(t, f.Close())
}

// TestAFileThatIsNotWrittenWholeIsNotThere, and what was there before is.
func TestAFileThatIsNotWrittenWholeIsNotThere(t *testing.T) {
	good := snapshotOf(t)
	for name, write := range map[string]func(io.Writer) error{
		"an error at its end": func(w io.Writer) error { _, err := w.Write(good); return errors.Join(err, errDisk) },
		"cut":                 func(w io.Writer) error { _, err := w.Write(good[:len(good)/2]); return err },
	} {
		dir := t.TempDir()
		path := touch(t, filepath.Join(dir, "f.db"))
		require.Error(t, writeWhole(path, write), name)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1, name)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "text", string(content), name)
	}
}
