package boltfile

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// version is the options of a program that knows a schema. Each upgrade notes in the file
// that it was done.
func version(schema int) Options {
	opts := Options{Kind: "test file", Schema: schema, Upgrades: map[int]Upgrade{}, LockWait: testOptions.LockWait}
	for from := 1; from < schema; from++ {
		opts.Upgrades[from] = func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("steps"))
			if err != nil {
				return err
			}
			return b.Put([]byte{'0' + byte(from)}, []byte("done"))
		}
	}
	return opts
}

func TestAnOlderFileIsUpgradedOnceAndACopyKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	open := func(schema int) *File {
		f, err := Open(path, version(schema))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		return f
	}
	f := open(1)
	require.NoError(t, f.Write(Op{Bucket: []string{"a"}, Key: "k", Value: []byte("v")}))
	require.NoError(t, f.Close())

	f = open(3)
	require.Equal(t, []byte("done"), value(t, f, "1", "steps"))
	require.Equal(t, []byte("done"), value(t, f, "2", "steps"))
	require.Equal(t, []byte("v"), value(t, f, "k", "a"))
	require.NoError(t, f.Write(Op{Bucket: []string{"steps"}})) // each comes once
	require.NoError(t, f.Close())
	f = open(3)
	require.Nil(t, value(t, f, "1", "steps"))
	require.NoError(t, f.Close())

	_, err := Open(path, version(2))
	require.ErrorIs(t, err, ErrNewer)
	require.ErrorContains(t, err, "schema version is 3, this program knows up to 2")

	require.NoError(t, os.Rename(path+".schema-1", path))
	f = open(1)
	require.Equal(t, []byte("v"), value(t, f, "k", "a"), "the copy is what an older program left")
	require.Nil(t, value(t, f, "1", "steps"))
}

func TestAnUpgradeThatFailsChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	f, err := Open(path, version(1))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	opts := version(3)
	opts.Upgrades[2] = func(*bbolt.Tx) error { return errors.New("no such thing") }
	opts.SetAside = true
	_, err = Open(path, opts)
	require.EqualError(t, err, "test file "+path+": upgrading it from schema 1 to 3: to 3: no such thing")
	f, err = Open(path, version(1))
	require.NoError(t, err)
	require.Nil(t, value(t, f, "1", "steps"))
	require.NoError(t, f.Close())
}

// TestACrashWhileAFileIsBroughtUpLosesNothing kills a program at each point that it comes by
// when it upgrades a file, replaces a damaged or lost one by its copy, or takes a staged one.
// The program that is started afterwards has all that was there, and an older one has too,
// or refuses.
func TestACrashWhileAFileIsBroughtUpLosesNothing(t *testing.T) {
	program := filepath.Join(t.TempDir(), "upgrade")
	out, err := exec.Command("go", "build", "-tags", "failpoint", "-o", program, "./testdata/upgrade").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for name, c := range map[string]struct {
		prepare func(t *testing.T, path string)
		points  []string // among others
	}{
		"upgrade": {func(*testing.T, string) {}, []string{"f.db.schema-1.rename", "f.db.schema-1.renamed", "f.db.upgrade", "f.db.upgraded"}},
		"damaged": {func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 9000)) },
			[]string{"f.db.aside", "f.db.set-aside", "f.db.rename", "f.db.renamed"}},
		"lost": {func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }, []string{"f.db.rename", "f.db.renamed"}},
		"staged": {func(t *testing.T, path string) {
			require.NoError(t, os.Rename(CopyPath(path), stagedPath(path)))
			require.NoError(t, os.Truncate(path, 0))
		}, []string{"f.db.restore.take", "f.db.restore.taken"}},
		"mostly empty": {func(t *testing.T, path string) {
			f, err := Open(path, version(1))
			require.NoError(t, err)
			fillAndEmpty(t, f)
			require.NoError(t, f.Close())
		}, []string{"f.db.compact", "f.db.compacted"}},
	} {
		t.Run(name, func(t *testing.T) {
			older := func(t *testing.T) string {
				path := olderFile(t)
				c.prepare(t, path)
				return path
			}
			points := filepath.Join(t.TempDir(), "points")
			require.NoError(t, bringUpWith(program, older(t), "WASMNODE_FAILPOINT_LOG="+points))
			content, err := os.ReadFile(points)
			require.NoError(t, err)
			reached := strings.Fields(string(content))
			for _, p := range c.points {
				require.Contains(t, reached, "agent/"+p)
			}
			slices.Sort(reached)
			for _, point := range slices.Compact(reached) {
				t.Run(filepath.Base(point), func(t *testing.T) { dieAt(t, program, older(t), point) })
			}
		})
	}
}

// olderFile is one of schema 1, with its last good copy.
func olderFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.db")
	opts := version(1)
	opts.CopyEvery = DefaultCopyEvery
	f, err := Open(path, opts)
	require.NoError(t, err)
	require.NoError(t, f.Write(Op{Bucket: []string{"values"}, Key: "old", Value: []byte("value")}))
	require.NoError(t, f.Close())
	return path
}

// bringUpWith has the program of schema 2 open and close a file.
func bringUpWith(program, path string, env ...string) error {
	cmd := exec.Command(program, "agent", path)
	cmd.Env = append(os.Environ(), env...)
	return cmd.Run()
}

func dieAt(t *testing.T, program, path, point string) {
	t.Helper()
	var exit *exec.ExitError
	require.ErrorAs(t, bringUpWith(program, path, "WASMNODE_FAILPOINT="+point+":1"), &exit)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())

	if f, err := Open(path, version(1)); err == nil {
		require.Equal(t, []byte("value"), value(t, f, "old", "values"))
		require.NoError(t, f.Close())
	} else if !errors.Is(err, ErrNewer) {
		require.ErrorIs(t, err, ErrCorrupt)
	}
	require.NoError(t, bringUpWith(program, path))
	f, err := Open(path, Options{Kind: "test file", Schema: 2})
	require.NoError(t, err)
	require.Equal(t, []byte("upgraded value"), value(t, f, "new", "values"))
	require.Nil(t, value(t, f, "old", "values"))
	require.NoError(t, f.Close())
	kept, err := Open(path+".schema-1", version(1))
	require.NoError(t, err)
	require.Equal(t, []byte("value"), value(t, kept, "old", "values"))
	require.NoError(t, kept.Close())
}
