package rootfs_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero/experimental/sys"

	"github.com/wasmnode/wasmnode/sandbox/rootfs"
)

func newFiles(t testing.TB, w world) *rootfs.Files {
	t.Helper()
	f := rootfs.NewFiles()
	require.NoError(t, f.Add("read", w.mount, "mine", true))
	require.NoError(t, f.Add("write", w.mount, "sub/mine", false))
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func TestSingleFilesCanBeMounted(t *testing.T) {
	w := newWorld(t)
	f := newFiles(t, w)
	require.Equal(t, "mine", content(t, f, "read"))
	_, no := f.OpenFile("read", sys.O_RDWR, 0)
	require.Equal(t, sys.EROFS, no)
	require.Equal(t, sys.EROFS, f.Chmod("read", 0))
	file := openFile(t, f, "write", sys.O_RDWR|sys.O_TRUNC)
	_, no = file.Write([]byte("new"))
	require.Zero(t, no)
	require.Equal(t, "new", content(t, f, "write"))
	require.Zero(t, f.Chmod("write", 0o600))
	require.Zero(t, f.Utimens("write", 1, 2))

	dir := openFile(t, f, ".", sys.O_RDONLY)
	for range 2 {
		for _, want := range []string{"read", "write"} {
			entries, no := dir.Readdir(1)
			require.Zero(t, no)
			require.Len(t, entries, 1)
			require.Equal(t, want, entries[0].Name)
		}
		entries, no := dir.Readdir(1)
		require.Zero(t, no)
		require.Empty(t, entries)
		_, no = dir.Seek(0, io.SeekStart)
		require.Zero(t, no)
	}
	st, no := f.Stat("/")
	require.Zero(t, no)
	require.True(t, st.Mode.IsDir())

	require.NoError(t, os.WriteFile(filepath.Join(w.mount, "next"), []byte("replaced"), 0o644))
	require.NoError(t, os.Rename(filepath.Join(w.mount, "next"), filepath.Join(w.mount, "mine")))
	require.Equal(t, "replaced", content(t, f, "read"))
}

// Of all places, a mounted file's own directory is where a link would be followed: it is the
// root of what the mount can reach.
func TestAMountedFileThatBecameALinkIsNotFollowed(t *testing.T) {
	w := newWorld(t)
	f := newFiles(t, w)
	require.NoError(t, os.WriteFile(filepath.Join(w.mount, "neighbour"), []byte("not mounted"), 0o644))
	require.NoError(t, os.Remove(filepath.Join(w.mount, "mine")))
	require.NoError(t, os.Symlink("neighbour", filepath.Join(w.mount, "mine")))
	_, no := f.OpenFile("read", sys.O_RDONLY, 0)
	require.Equal(t, sys.EPERM, no)
	_, no = f.Stat("read")
	require.Equal(t, sys.EPERM, no)
	require.Equal(t, sys.EPERM, f.Chmod("read", 0o777))
}

func TestASingleFileMountShowsNothingElse(t *testing.T) {
	w := newWorld(t)
	f := newFiles(t, w)
	for _, name := range []string{"mine", "sub", "..", "../outside/secret", "read/", "read/..//mine", "lying-relative", "inner-file"} {
		_, no := f.OpenFile(name, sys.O_RDONLY, 0)
		require.Equal(t, sys.ENOENT, no, name)
		_, no = f.OpenFile(name, sys.O_RDWR|sys.O_CREAT, 0o644)
		require.Equal(t, sys.EROFS, no, name)
		_, no = f.Stat(name)
		require.Equal(t, sys.ENOENT, no, name)
	}
	for _, no := range []sys.Errno{f.Mkdir("d", 0o755), f.Rename("read", "x"), f.Rmdir("read"), f.Unlink("read"), f.Link("read", "x"), f.Symlink("read", "x")} {
		require.Equal(t, sys.EROFS, no)
	}
	_, no := f.Readlink("read")
	require.Equal(t, sys.EINVAL, no)

	require.NoError(t, os.Remove(filepath.Join(w.mount, "sub", "mine")))
	_, no = f.OpenFile("write", sys.O_RDWR|sys.O_CREAT, 0o644)
	require.Equal(t, sys.EROFS, no, "a file that is gone is not made again")
	require.NoError(t, os.Symlink("../../outside/secret", filepath.Join(w.mount, "sub", "mine")))
	_, no = f.OpenFile("write", sys.O_RDWR, 0)
	require.Equal(t, sys.EPERM, no)
	w.requireUntouched(t)
}

func TestOnlyFilesInsideTheDirectoryAreMountedAsFiles(t *testing.T) {
	w := newWorld(t)
	f := newFiles(t, w)
	for _, tc := range [][2]string{{"a", "sub"}, {"a", "lying-relative"}, {"a", "inner-file"}, {"a", "lying-dir/secret"}, {"a", "../outside/secret"}, {"a", "missing"},
		{"read", "mine"}, {"a/b", "mine"}, {"..", "mine"}, {".", "mine"}, {"", "mine"}} {
		require.Error(t, f.Add(tc[0], w.mount, tc[1], true), tc)
	}
	require.ErrorIs(t, f.Add("a", w.mount, "sub", true), rootfs.ErrNotFile)
	require.NoError(t, f.Close())
	require.Empty(t, descriptors(t, w.mount))
}
