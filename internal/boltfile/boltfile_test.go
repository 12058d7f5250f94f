package boltfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/leaktest"
)

func TestMain(m *testing.M) {
	if err := os.Setenv(StrictEnv, "1"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(leaktest.WithTimeout(m))
}

var testOptions = Options{Kind: "test file", Schema: 3, LockWait: 50 * time.Millisecond}

func openFile(t *testing.T, path string) *File {
	f, err := Open(path, testOptions)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func value(t *testing.T, f *File, key string, bucket ...string) (v []byte) {
	require.NoError(t, f.View(func(tx *bbolt.Tx) error {
		if b := Bucket(tx, bucket...); b != nil {
			v = bytes.Clone(b.Get([]byte(key)))
		}
		return nil
	}))
	return v
}

func TestTheFileIsPrivate(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "f.db"))
	info, err := os.Stat(f.Path())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.True(t, f.strict, "so are all tests run")
	require.NoError(t, f.Close())
	require.NoFileExists(t, CopyPath(f.Path()), "nobody asked for one")
}

// A panic of the database is an error of the write, and not of the program; nothing is
// durable then.
func TestAPanicInATransactionIsItsError(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "f.db"))
	require.ErrorIs(t, f.commit([]*write{{ops: []Op{{}}}}), ErrCorrupt)
	require.Zero(t, f.Commits())
	require.NoError(t, f.Close())
	require.NoError(t, openFile(t, f.Path()).Close(), "with the pages that it may have lost")
}

// TestFreePagesAreListedAtTheEndOnly, and are found when there was none.
func TestFreePagesAreListedAtTheEndOnly(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "f.db"))
	bulk := Op{Bucket: []string{"b"}, Key: "bulk", Value: make([]byte, 1<<20)}
	require.NoError(t, f.Write(bulk))
	require.NoError(t, f.Write(Op{Bucket: bulk.Bucket, Key: bulk.Key}))
	killed := filepath.Join(t.TempDir(), "killed.db")
	content, err := os.ReadFile(f.Path())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(killed, content, 0o600))
	for path, listed := range map[string]bool{killed: false, f.Path(): true} {
		require.NoError(t, f.Close())
		m, err := describe(path)
		require.NoError(t, err)
		require.Equal(t, listed, m.freelist != noFreelist)
		again := openFile(t, path)
		require.Less(t, again.InUse(), int64(len(bulk.Value)))
		require.NoError(t, again.Write(bulk))
		require.NoError(t, again.Close())
		m2, err := describe(path)
		require.NoError(t, err)
		require.NotEqual(t, noFreelist, m2.freelist)
		require.Less(t, m2.high, m.high+100, "the free pages are used again")
	}
}

func TestALockedFileIsRefusedInBoundedTimeWithWhatToDo(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "f.db"))
	_, err := Open(f.Path(), testOptions)
	require.ErrorIs(t, err, ErrLocked)
	require.ErrorContains(t, err, f.Path())
	require.ErrorContains(t, err, "stop the other agent")
}

func TestANewerSchemaIsRefusedAndNeverSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	require.NoError(t, openFile(t, path).Close())
	older := testOptions
	older.Schema = 2
	for _, older.SetAside = range []bool{false, true} {
		_, err := Open(path, older)
		require.ErrorIs(t, err, ErrNewer)
		require.ErrorContains(t, err, "schema version is 3, this program knows up to 2")
	}
	require.NoError(t, openFile(t, path).Close())
}

func TestAFileOfAnotherKindIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	require.NoError(t, openFile(t, path).Close())
	other := testOptions
	other.Kind, other.SetAside = "other file", true
	_, err := Open(path, other)
	require.ErrorContains(t, err, "another kind")
}

// A damaged header looks like that of another kind of file, or of a newer one.
func TestADamagedHeaderIsTakenForDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	require.NoError(t, openFile(t, path).Close())
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	for is, becomes := range map[string]string{
		`"Kind":"`: `"Kinf":"`, testOptions.Kind + `"`: "?" + testOptions.Kind[1:] + `"`, `"Schema":3`: `"Schema":7`,
	} {
		require.Contains(t, string(good), is)
		require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(good, []byte(is), []byte(becomes)), 0o600))
		_, err := Open(path, testOptions)
		require.ErrorIs(t, err, ErrCorrupt, becomes)
	}
	older := regexp.MustCompile(`,"Sum":\d+}`)
	without := older.ReplaceAllFunc(good, func(sum []byte) []byte { return append([]byte("}"), bytes.Repeat([]byte(" "), len(sum)-1)...) })
	require.NotEqual(t, good, without)
	require.NoError(t, os.WriteFile(path, without, 0o600))
	require.NoError(t, openFile(t, path).Close(), "an older program wrote it")
}

// damage makes files that cannot be trusted, from a good one of many pages.
var damage = map[string]func(good []byte) []byte{
	"no database":         func([]byte) []byte { return bytes.Repeat([]byte("not a database\n"), 1000) },
	"shorter than a page": func(good []byte) []byte { return good[:100] },
	"only the meta pages": func(good []byte) []byte { return good[:2*os.Getpagesize()] },
	"half":                func(good []byte) []byte { return good[:len(good)/2] },
	"last page torn":      func(good []byte) []byte { return good[:len(good)-os.Getpagesize()/2] },
	"both metas zero": func(good []byte) []byte {
		clear(good[:2*os.Getpagesize()])
		return good
	},
	"pages zero": func(good []byte) []byte {
		clear(good[2*os.Getpagesize():])
		return good
	},
	"another program's bbolt file": func([]byte) []byte {
		f, _ := os.CreateTemp("", "")
		defer os.Remove(f.Name())
		db, _ := bbolt.Open(f.Name(), 0o600, nil)
		_ = db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("theirs")); return err })
		_ = db.Close()
		content, _ := os.ReadFile(f.Name())
		return content
	},
}

func TestADamagedFileIsDetectedAndSetAsideOnRequest(t *testing.T) {
	source := openFile(t, filepath.Join(t.TempDir(), "f.db"))
	for i := range 50 {
		require.NoError(t, source.Write(Op{Bucket: []string{"b"}, Key: fmt.Sprint(i), Value: bytes.Repeat([]byte{1}, 3000)}))
	}
	require.NoError(t, source.Close())
	good, err := os.ReadFile(source.Path())
	require.NoError(t, err)
	// bbolt grows the file ahead of use; what is cut must be in use.
	db, err := bbolt.Open(source.Path(), 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		good = good[:tx.Size()]
		return nil
	}))
	require.NoError(t, db.Close())

	for name, spoil := range damage {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f.db")
			spoilt := spoil(bytes.Clone(good))
			require.NoError(t, os.WriteFile(path, spoilt, 0o600))
			_, err := Open(path, testOptions)
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, path)

			var log bytes.Buffer
			opts := testOptions
			opts.SetAside = true
			opts.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
			f, err := Open(path, opts)
			require.NoError(t, err)
			defer func() { require.NoError(t, f.Close()) }()
			require.NoError(t, f.Write(Op{Bucket: []string{"b"}, Key: "k", Value: []byte("v")}))
			kept, err := filepath.Glob(path + ".damaged-*")
			require.NoError(t, err)
			require.Len(t, kept, 1)
			content, err := os.ReadFile(kept[0])
			require.NoError(t, err)
			require.Equal(t, spoilt, content)
			require.Contains(t, log.String(), kept[0])
		})
	}
}

func TestAWriteIsAllOrNothing(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "f.db"))
	require.NoError(t, f.Write(Op{Bucket: []string{"a", "b"}, Key: "k", Value: []byte("v")}))
	// "b" is a bucket, so that it cannot be a key: the second operation fails.
	err := f.Write(
		Op{Bucket: []string{"x"}, Key: "k", Value: []byte("v")},
		Op{Bucket: []string{"a"}, Key: "b", Value: []byte("v")})
	require.Error(t, err)
	require.Nil(t, value(t, f, "k", "x"))
}

// TestD7_AValueOfAFailedTransactionIsWrittenWhenItIsWrittenAgain: unchanged values are
// skipped, and one that was rolled back is not unchanged.
func TestD7_AValueOfAFailedTransactionIsWrittenWhenItIsWrittenAgain(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "f.db"))
	again := Op{Bucket: []string{"a"}, Key: "k", Value: []byte("new")}
	require.NoError(t, f.Write(
		Op{Bucket: []string{"a"}, Key: "k", Value: []byte("old")},
		Op{Bucket: []string{"a", "b"}, Key: "k", Value: []byte("v")}))
	require.Error(t, f.Write(again, Op{Bucket: []string{"a"}, Key: "b", Value: []byte("a bucket is not a key")}))
	require.Equal(t, []byte("old"), value(t, f, "k", "a"))
	require.NoError(t, f.Write(again))
	require.Equal(t, []byte("new"), value(t, f, "k", "a"))
}

func TestOneWritersFaultIsNotAnothers(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "f.db"))
	require.NoError(t, f.Write(Op{Bucket: []string{"a", "b"}, Key: "k", Value: []byte("v")}))
	good := &write{ops: []Op{{Bucket: []string{"good"}, Key: "k", Value: []byte("v")}}, done: make(chan error, 1)}
	bad := &write{ops: []Op{{Bucket: []string{"a"}, Key: "b", Value: []byte("v")}}, done: make(chan error, 1)}
	f.mu.Lock()
	f.pending = append(f.pending, bad, good)
	f.mu.Unlock()
	f.wake.Set()
	require.NoError(t, <-good.done)
	require.Error(t, <-bad.done)
	require.Equal(t, []byte("v"), value(t, f, "k", "good"))
}

func TestUnchangedValuesAreNotWritten(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "f.db"))
	op := Op{Bucket: []string{"a"}, Key: "k", Value: []byte("v")}
	require.NoError(t, f.Write(op))
	require.NoError(t, f.Write(op))
	require.NoError(t, f.Write(Op{Bucket: []string{"a"}, Key: "absent"}, Op{Bucket: []string{"no", "such"}}))
	require.EqualValues(t, 1, f.Commits())
	require.NoError(t, f.Write(Op{Bucket: []string{"a"}, Key: "k"}))
	require.NoError(t, f.Write(op))
	require.EqualValues(t, 3, f.Commits())
	require.Equal(t, []byte("v"), value(t, f, "k", "a"))
}

// TestConcurrentWritersShareTransactions: all that come while one transaction is made share
// the next. How many those are is up to the scheduler otherwise: on a busy machine, one.
func TestConcurrentWritersShareTransactions(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "f.db"))
	const writers = 200
	put := func(i int) []Op { return []Op{{Bucket: []string{"a"}, Key: fmt.Sprint(i), Value: []byte("v")}} }
	pending := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.pending)
	}
	held, err := f.db.Begin(true)
	require.NoError(t, err)
	first := &write{ops: put(0), done: make(chan error, 1)}
	f.mu.Lock()
	f.pending = append(f.pending, first)
	f.mu.Unlock()
	f.wake.Set()
	require.Eventually(t, func() bool { return pending() == 0 }, time.Minute, time.Millisecond)
	var wg sync.WaitGroup
	for i := range writers - 1 {
		wg.Go(func() {
			if err := f.Write(put(1 + i)...); err != nil {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool { return pending() == writers-1 }, time.Minute, time.Millisecond)
	require.NoError(t, held.Rollback())
	wg.Wait()
	require.NoError(t, <-first.done)
	require.EqualValues(t, 2, f.Commits())
	for i := range writers {
		require.NotNil(t, value(t, f, fmt.Sprint(i), "a"))
	}
}

func TestCloseLetsWritersFinishAndRefusesLaterOnes(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "f.db"))
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			err := f.Write(Op{Bucket: []string{"a"}, Key: fmt.Sprint(i), Value: []byte("v")})
			if err != nil && !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
	}
	require.NoError(t, f.Close())
	wg.Wait()
	require.ErrorIs(t, f.Write(Op{Bucket: []string{"a"}, Key: "k", Value: []byte("v")}), ErrClosed)
	require.ErrorIs(t, f.View(func(*bbolt.Tx) error { return nil }), ErrClosed)
	require.NoError(t, f.Close())
}

func TestBadOperationsAreRefused(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "f.db"))
	long := string(make([]byte, bbolt.MaxKeySize))
	for name, op := range map[string]Op{
		"no bucket":      {Key: "k", Value: []byte("v")},
		"unnamed bucket": {Bucket: []string{""}, Key: "k", Value: []byte("v")},
		"no key":         {Bucket: []string{"b"}, Value: []byte("v")},
		"key too long":   {Bucket: []string{"b"}, Key: long + "x", Value: []byte("v")},
	} {
		require.Error(t, f.Write(op), name)
	}
	require.NoError(t, f.Write(Op{Bucket: []string{"b"}, Key: long, Value: []byte("v")}))
}
