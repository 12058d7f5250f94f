package rootfs_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero/experimental/sys"

	"github.com/wasmnode/wasmnode/sandbox/rootfs"
)

func TestAnOpenSwitchIsWhatItIsAtTheTime(t *testing.T) {
	w := newWorld(t)
	s := rootfs.NewSwitch(func() <-chan struct{} { return nil })
	dir, no := s.OpenFile(".", sys.O_RDONLY, 0)
	require.Zero(t, no)
	list := func() (names []string) {
		_, no := dir.Seek(0, io.SeekStart)
		require.Zero(t, no)
		entries, no := dir.Readdir(-1)
		require.Zero(t, no)
		for _, e := range entries {
			names = append(names, e.Name)
		}
		return names
	}
	require.Empty(t, list())
	for range 2 {
		s.Set(func() (*rootfs.FS, error) { return rootfs.Open(w.mount, false) })
		require.Contains(t, list(), "mine")
		file, no := s.OpenFile("mine", sys.O_RDONLY, 0)
		require.Zero(t, no)
		require.Equal(t, 2, s.Clear(), "the listing and the file")
		_, no = file.Read(make([]byte, 1))
		require.NotZero(t, no)
		require.Empty(t, list())
		for _, no := range []sys.Errno{s.Mkdir("d", 0o755), s.Unlink("mine"), s.Symlink("a", "b"), s.Rename("mine", "x"), s.Link("mine", "x"), s.Chmod("mine", 0), s.Utimens("mine", 1, 1), s.Rmdir("sub")} {
			require.Equal(t, sys.ENOENT, no, "it is none")
		}
	}
	require.Empty(t, descriptors(t, w.mount))
}

// Each open descriptor costs the host memory, also one of no file.
func TestAVirtualDirectoryIsOpenSoManyTimesAtMost(t *testing.T) {
	for name, d := range map[string]sys.FS{
		"switch": rootfs.NewSwitch(func() <-chan struct{} { return nil }),
		"files":  rootfs.NewFiles(),
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				var open []sys.File
				for range rootfs.MaxOpenFiles {
					dir, no := d.OpenFile(".", sys.O_RDONLY, 0)
					require.Zero(t, no)
					open = append(open, dir)
				}
				_, no := d.OpenFile("/", sys.O_RDONLY, 0)
				require.Equal(t, sys.EAGAIN, no)
				for _, dir := range open {
					require.Zero(t, dir.Close())
					require.Zero(t, dir.Close())
				}
			}
		})
	}
}
