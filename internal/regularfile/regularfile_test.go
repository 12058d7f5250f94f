package regularfile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/regularfile"
)

func TestOnlyARegularFileIsReadAndNobodyIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(path("file"), []byte("text"), 0o600))
	require.NoError(t, os.Symlink("file", path("link")))
	require.NoError(t, syscall.Mkfifo(path("pipe"), 0o600))
	require.NoError(t, os.Symlink("pipe", path("to-pipe")))

	for _, name := range []string{"file", "link"} {
		text, err := regularfile.Read(path(name), 4)
		require.NoError(t, err)
		require.Equal(t, "text", string(text))
		_, err = regularfile.Read(path(name), 3)
		require.EqualError(t, err, path(name)+": it has 4 bytes, the limit is 3")
	}
	for _, other := range []string{dir, path("pipe"), path("to-pipe"), os.DevNull} {
		_, err := regularfile.Read(other, 4)
		require.ErrorIs(t, err, regularfile.ErrKind)
		require.EqualError(t, err, other+": not a regular file")
	}
	_, err := regularfile.Read(path("none"), 4)
	require.ErrorIs(t, err, fs.ErrNotExist)
}
