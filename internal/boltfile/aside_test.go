package boltfile

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOnlyTheNewestFilesThatWereSetAsideAreKept, of each file and kind.
func TestOnlyTheNewestFilesThatWereSetAsideAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "odd [name]*")
	require.NoError(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "f.db")
	other := touch(t, filepath.Join(dir, "g.db.damaged-20060102T150405.000000000Z"))
	var recovered []Recovery
	var log bytes.Buffer
	good := snapshotOf(t)
	for i := range keptFiles + 2 {
		f, err := Open(path, kept(&recovered, &log))
		require.NoError(t, err)
		require.NoError(t, f.Write(Op{Bucket: []string{"a"}, Key: "k", Value: []byte{byte(i)}}))
		require.NoError(t, f.Stage(func(w io.Writer) error { _, err := w.Write(good); return err }))
		require.NoError(t, f.Close())
		f, err = Open(path, kept(&recovered, &log))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.NoError(t, os.Truncate(path, 9000))
		require.NoError(t, os.Truncate(CopyPath(path), 9000))
	}
	for _, name := range []string{"f.db" + damagedFile, "f.db" + replacedFile, "f.db.last-good" + damagedFile} {
		count := 0
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), name) {
				count++
			}
		}
		require.Equal(t, keptFiles, count, name)
	}
	require.Contains(t, log.String(), "an old file that was set aside is removed: the newest are kept: file=")
	require.FileExists(t, recovered[len(recovered)-1].KeptAs, "the newest")
	require.FileExists(t, other)
}

func touch(t *testing.T, path string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	return path
}

// snapshotOf is the content of a database with one value.
func snapshotOf(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.db")
	f, err := Open(path, testOptions)
	require.NoError(t, err)
	require.NoError(t, f.Write(Op{Bucket: []string{"a"}, Key: "k", Value: []byte("staged")}))
	require.NoError(t, f.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}
