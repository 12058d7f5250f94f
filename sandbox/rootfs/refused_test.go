package rootfs_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero/experimental/sys"

	"github.com/wasmnode/wasmnode/sandbox/rootfs"
)

func TestNothingOfARefusedRootCanBeUsed(t *testing.T) {
	var told []rootfs.Refusal
	r := rootfs.NewRefused(func(refusal rootfs.Refusal) { told = append(told, refusal) })
	open := func(name string, flag sys.Oflag) sys.Errno {
		_, no := r.OpenFile(name, flag, 0)
		return no
	}
	_, stat := r.Stat("etc")
	_, lstat := r.Lstat("etc/../usr")
	_, readlink := r.Readlink("bin")
	for i, no := range []sys.Errno{
		stat, lstat, readlink, open("etc/passwd", sys.O_RDONLY), open("etc", sys.O_DIRECTORY), open("new", sys.O_WRONLY|sys.O_CREAT),
		r.Mkdir("d", 0), r.Unlink("d"), r.Symlink("a", "d"), r.Rename("d", "x"), r.Link("d", "x"), r.Chmod("d", 0), r.Utimens("d", 1, 1), r.Rmdir("d"),
	} {
		require.Equal(t, sys.EACCES, no, i)
	}
	want := []rootfs.Refusal{{Path: "/etc"}, {Path: "/usr"}, {Path: "/bin"}, {Path: "/etc/passwd"}, {Path: "/etc", Dir: true}, {Path: "/new", Write: true}}
	for range 8 {
		want = append(want, rootfs.Refusal{Path: "/d", Write: true})
	}
	require.Equal(t, want, told)

	told = nil
	dir, no := r.OpenFile(".", sys.O_RDONLY, 0)
	require.Zero(t, no)
	isDir, no := dir.IsDir()
	require.True(t, isDir && no == 0)
	_, no = dir.Readdir(-1)
	require.Equal(t, sys.EACCES, no)
	require.Equal(t, []rootfs.Refusal{{Path: "/", Dir: true}}, told)
	for range rootfs.MaxOpenFiles - 1 {
		require.Zero(t, open(".", sys.O_RDONLY))
	}
	require.Equal(t, sys.EAGAIN, open(".", sys.O_RDONLY))
	require.Zero(t, dir.Close())
	require.Zero(t, open(".", sys.O_RDONLY))
}
