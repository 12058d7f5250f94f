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

// TestACrashDuringAnUpgradeLeavesAFileOfEitherSchema kills a program at each point that an
// upgrade comes by: whichever program is started afterwards has all that was there.
func TestACrashDuringAnUpgradeLeavesAFileOfEitherSchema(t *testing.T) {
	dir := t.TempDir()
	program, points := filepath.Join(dir, "upgrade"), filepath.Join(dir, "points")
	out, err := exec.Command("go", "build", "-tags", "failpoint", "-o", program, "./testdata/upgrade").CombinedOutput()
	require.NoError(t, err, "%s", out)
	older := func(t *testing.T) string {
		path := filepath.Join(t.TempDir(), "f.db")
		opts := version(1)
		opts.CopyEvery = DefaultCopyEvery
		f, err := Open(path, opts)
		require.NoError(t, err)
		require.NoError(t, f.Write(Op{Bucket: []string{"values"}, Key: "old", Value: []byte("value")}))
		require.NoError(t, f.Close())
		return path
	}
	run := func(path string, env ...string) error {
		cmd := exec.Command(program, "agent", path)
		cmd.Env = append(os.Environ(), env...)
		return cmd.Run()
	}
	require.NoError(t, run(older(t), "WASMNODE_FAILPOINT_LOG="+points))
	content, err := os.ReadFile(points)
	require.NoError(t, err)
	reached := strings.Fields(string(content))
	for _, p := range []string{"agent/f.db.schema-1.rename", "agent/f.db.schema-1.renamed", "agent/f.db.upgrade", "agent/f.db.upgraded"} {
		require.Contains(t, reached, p)
	}
	slices.Sort(reached)
	for _, point := range slices.Compact(reached) {
		t.Run(filepath.Base(point), func(t *testing.T) {
			path := older(t)
			var exit *exec.ExitError
			require.ErrorAs(t, run(path, "WASMNODE_FAILPOINT="+point+":1"), &exit)
			require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())

			if f, err := Open(path, version(1)); err == nil {
				require.Equal(t, []byte("value"), value(t, f, "old", "values"))
				require.NoError(t, f.Close())
			} else {
				require.ErrorIs(t, err, ErrNewer)
			}
			require.NoError(t, run(path))
			f, err := Open(path, Options{Kind: "test file", Schema: 2})
			require.NoError(t, err)
			require.Equal(t, []byte("upgraded value"), value(t, f, "new", "values"))
			require.Nil(t, value(t, f, "old", "values"))
			require.NoError(t, f.Close())
			kept, err := Open(path+".schema-1", version(1))
			require.NoError(t, err)
			require.Equal(t, []byte("value"), value(t, kept, "old", "values"))
			require.NoError(t, kept.Close())
		})
	}
}
