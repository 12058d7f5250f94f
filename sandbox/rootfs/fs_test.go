package rootfs_test

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero/experimental/sys"

	"github.com/wasmnode/wasmnode/sandbox/rootfs"
)

func mount(t testing.TB, w world, readOnly bool) *rootfs.FS {
	t.Helper()
	f, err := rootfs.Open(w.mount, readOnly)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func openFile(t testing.TB, f sys.FS, name string, flag sys.Oflag) sys.File {
	t.Helper()
	file, no := f.OpenFile(name, flag, 0o644)
	require.Zero(t, no, "%s: %v", name, no)
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func content(t testing.TB, f sys.FS, name string) string {
	t.Helper()
	buf := make([]byte, 1024)
	n, no := openFile(t, f, name, sys.O_RDONLY).Read(buf)
	require.Zero(t, no)
	return string(buf[:n])
}

func TestLinksThatStayInsideWork(t *testing.T) {
	f := mount(t, newWorld(t), false)
	require.Equal(t, "mine below", content(t, f, "inner-file"))
	require.Equal(t, "mine below", content(t, f, "inner-dir/mine"))
	require.Equal(t, "mine below", content(t, f, "/sub/./deep/../mine"))
	target, no := f.Readlink("inner-file")
	require.Zero(t, no)
	require.Equal(t, "sub/mine", target)

	require.Zero(t, f.Symlink("../mine", "sub/up"))
	require.Equal(t, "mine", content(t, f, "sub/up"))
	require.Zero(t, f.Link("mine", "hard"))
	require.Equal(t, "mine", content(t, f, "hard"))
}

func TestLinksThatLeadOutsideAreRefused(t *testing.T) {
	w := newWorld(t)
	f := mount(t, w, false)
	for _, name := range []string{"..", "../outside", "../outside/secret", "sub/../../outside/secret", "lying-relative", "lying-absolute",
		"lying-dir", "lying-dir/secret", "lying-chain/secret", "lying-proc/etc/passwd", "inner-absolute"} {
		_, no := f.OpenFile(name, sys.O_RDONLY, 0)
		require.Equal(t, sys.EPERM, no, name)
		_, no = f.OpenFile(name, sys.O_RDWR|sys.O_CREAT|sys.O_TRUNC, 0o644)
		require.Equal(t, sys.EPERM, no, name)
		_, no = f.Stat(name)
		require.Equal(t, sys.EPERM, no, name)
		require.NotZero(t, f.Chmod(name, 0o777), name)
		require.NotZero(t, f.Utimens(name, 1, 1), name)
		require.NotZero(t, f.Mkdir(name, 0o755), name)
	}
	_, no := f.Stat("lying-loop")
	require.Equal(t, sys.ELOOP, no)
	for _, target := range []string{"/etc/passwd", "..", "../x", "sub/../../x"} {
		require.Equal(t, sys.EPERM, f.Symlink(target, "new"), target)
	}
	require.Equal(t, sys.EPERM, f.Symlink("../../x", "sub/new"))
	w.requireUntouched(t)
}

func TestALinkIsNotFollowedWithNoFollow(t *testing.T) {
	f := mount(t, newWorld(t), false)
	_, no := f.OpenFile("inner-file", sys.O_RDONLY|sys.O_NOFOLLOW, 0)
	require.Equal(t, sys.ELOOP, no)
	st, no := f.Lstat("inner-file")
	require.Zero(t, no)
	require.Equal(t, fs.ModeSymlink, st.Mode.Type())
	require.Zero(t, f.Unlink("lying-dir"), "removing a link removes the link")
}

func TestAReadOnlyMountCannotBeChanged(t *testing.T) {
	w := newWorld(t)
	f := mount(t, w, true)
	require.Equal(t, "mine", content(t, f, "mine"))
	for _, flag := range []sys.Oflag{sys.O_RDWR, sys.O_WRONLY, sys.O_CREAT, sys.O_TRUNC, sys.O_CREAT | sys.O_EXCL, sys.O_RDWR | sys.O_APPEND} {
		_, no := f.OpenFile("mine", flag, 0o644)
		require.Equal(t, sys.EROFS, no, flag)
	}
	for name, no := range map[string]sys.Errno{
		"mkdir": f.Mkdir("d", 0o755), "chmod": f.Chmod("mine", 0), "rename": f.Rename("mine", "x"), "rmdir": f.Rmdir("sub/deep"),
		"unlink": f.Unlink("mine"), "link": f.Link("mine", "x"), "symlink": f.Symlink("mine", "x"), "utimens": f.Utimens("mine", 1, 1),
	} {
		require.Equal(t, sys.EROFS, no, name)
	}
	file := openFile(t, f, "mine", sys.O_RDONLY)
	_, no := file.Write([]byte("x"))
	require.Equal(t, sys.EBADF, no)
	_, no = file.Pwrite([]byte("x"), 0)
	require.Equal(t, sys.EBADF, no)
	require.Equal(t, sys.EBADF, file.Truncate(0))
	require.Equal(t, sys.EROFS, file.Utimens(1, 1))
	require.Zero(t, file.SetAppend(true))
	b, err := os.ReadFile(filepath.Join(w.mount, "mine"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(b))
}

func TestAFIFOOrADeviceCannotBeOpened(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, syscall.Mkfifo(filepath.Join(w.mount, "fifo"), 0o644))
	f := mount(t, w, false)
	_, no := f.OpenFile("fifo", sys.O_RDONLY, 0)
	require.Equal(t, sys.EPERM, no)
	_, no = f.OpenFile("fifo", sys.O_RDWR, 0)
	require.Equal(t, sys.EPERM, no)
	_, no = f.OpenFile("fifo", sys.O_WRONLY, 0)
	require.NotZero(t, no)
	require.Zero(t, f.Unlink("fifo"))

	dev, err := rootfs.Open("/dev", true)
	require.NoError(t, err)
	defer func() { _ = dev.Close() }()
	_, no = dev.OpenFile("zero", sys.O_RDONLY, 0)
	require.Equal(t, sys.EPERM, no)
}

func TestFilesReadWriteAndSeek(t *testing.T) {
	f := mount(t, newWorld(t), false)
	file := openFile(t, f, "new", sys.O_RDWR|sys.O_CREAT|sys.O_EXCL)
	_, no := f.OpenFile("new", sys.O_RDWR|sys.O_CREAT|sys.O_EXCL, 0o644)
	require.Equal(t, sys.EEXIST, no)
	n, no := file.Write([]byte("0123456789"))
	require.Zero(t, no)
	require.Equal(t, 10, n)
	n, no = file.Pwrite([]byte("XY"), 4)
	require.Zero(t, no)
	require.Equal(t, 2, n)
	buf := make([]byte, 4)
	n, no = file.Pread(buf, 3)
	require.Zero(t, no)
	require.Equal(t, "3XY6", string(buf[:n]))
	n, no = file.Pread(buf, 8)
	require.Zero(t, no)
	require.Equal(t, 2, n, "the end is no error")
	at, no := file.Seek(-1, io.SeekEnd)
	require.Zero(t, no)
	require.EqualValues(t, 9, at)
	_, no = file.Seek(0, 7)
	require.Equal(t, sys.EINVAL, no)
	_, no = file.Seek(-1, io.SeekStart)
	require.Equal(t, sys.EINVAL, no)
	require.Zero(t, file.Truncate(3))
	require.Equal(t, sys.EINVAL, file.Truncate(-1))
	require.Zero(t, file.Sync())
	require.Zero(t, file.Datasync())
	require.Equal(t, "012", content(t, f, "new"))

	_, no = f.OpenFile("new/", sys.O_RDONLY, 0)
	require.Equal(t, sys.ENOTDIR, no, "a slash asks for a directory")
	_, no = f.OpenFile("new", sys.O_RDONLY|sys.O_DIRECTORY, 0)
	require.Equal(t, sys.ENOTDIR, no)
	_, no = f.OpenFile("missing", sys.O_RDONLY, 0)
	require.Equal(t, sys.ENOENT, no)
	_, no = f.OpenFile("sub", sys.O_RDWR, 0)
	require.Equal(t, sys.EISDIR, no)
	require.Zero(t, file.Close())
	require.Zero(t, file.Close(), "closing twice")
}

func TestAppendingFollowsTheDescriptorNotTheName(t *testing.T) {
	f := mount(t, newWorld(t), false)
	file := openFile(t, f, "mine", sys.O_RDWR|sys.O_APPEND)
	require.True(t, file.IsAppend())
	_, no := file.Write([]byte("+a"))
	require.Zero(t, no)
	require.Zero(t, f.Rename("mine", "moved"))
	require.Zero(t, file.SetAppend(false))
	require.False(t, file.IsAppend())
	_, no = file.Pwrite([]byte("M"), 0)
	require.Zero(t, no)
	require.Zero(t, file.SetAppend(true))
	_, no = file.Write([]byte("+b"))
	require.Zero(t, no)
	require.Equal(t, "Mine+a+b", content(t, f, "moved"))
	require.Zero(t, file.Utimens(1_000_000_001, 2_000_000_002))
	st, no := f.Stat("moved")
	require.Zero(t, no)
	require.EqualValues(t, 1_000_000_001, st.Atim)
	require.EqualValues(t, 2_000_000_002, st.Mtim)
	require.Zero(t, f.Utimens("moved", 5, sys.UTIME_OMIT))
	require.Zero(t, file.Utimens(sys.UTIME_OMIT, 7))
	st, no = file.Stat()
	require.Zero(t, no)
	require.EqualValues(t, 5, st.Atim)
	require.EqualValues(t, 7, st.Mtim)
}

func TestDirectoriesAreMadeListedAndRemoved(t *testing.T) {
	f := mount(t, newWorld(t), false)
	require.Zero(t, f.Mkdir("d", 0o755))
	require.Equal(t, sys.EEXIST, f.Mkdir("d", 0o755))
	for i := range 10 {
		openFile(t, f, fmt.Sprintf("d/%d", i), sys.O_WRONLY|sys.O_CREAT)
	}
	dir := openFile(t, f, "d", sys.O_RDONLY)
	require.Zero(t, f.Rename("d", "e"), "listing goes on after a rename")
	names := map[string]bool{}
	for range 2 {
		for {
			entries, no := dir.Readdir(3)
			require.Zero(t, no)
			if len(entries) == 0 {
				break
			}
			for _, e := range entries {
				require.NotZero(t, e.Ino)
				names[e.Name] = true
			}
		}
		require.Len(t, names, 10)
		_, no := dir.Seek(0, io.SeekStart)
		require.Zero(t, no, "rewinding")
		clear(names)
	}
	_, no := dir.Seek(1, io.SeekStart)
	require.Equal(t, sys.EINVAL, no)
	_, no = dir.Read(make([]byte, 1))
	require.Equal(t, sys.EISDIR, no)
	require.Equal(t, sys.EISDIR, dir.Truncate(0))
	_, no = openFile(t, f, "mine", sys.O_RDONLY).Readdir(1)
	require.Equal(t, sys.ENOTDIR, no)
	require.Equal(t, sys.ENOTEMPTY, f.Rmdir("e"))
	require.Equal(t, sys.ENOTDIR, f.Rmdir("mine"))
	require.Equal(t, sys.EISDIR, f.Unlink("e"))
	require.Equal(t, sys.ENOENT, f.Unlink("missing"))
	for i := range 10 {
		require.Zero(t, f.Unlink(fmt.Sprintf("e/%d", i)))
	}
	require.Zero(t, f.Rmdir("e"))
}

func TestPermissionsBeyondReadWriteAndExecuteAreNotSet(t *testing.T) {
	w := newWorld(t)
	f := mount(t, w, false)
	require.Zero(t, f.Chmod("mine", fs.ModeSetuid|0o711))
	info, err := os.Stat(filepath.Join(w.mount, "mine"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o711), info.Mode())
}

func TestOpenFilesAreBoundedAndCounted(t *testing.T) {
	f := mount(t, newWorld(t), false)
	var files []sys.File
	for range rootfs.MaxOpenFiles {
		files = append(files, openFile(t, f, "mine", sys.O_RDONLY))
	}
	_, no := f.OpenFile("mine", sys.O_RDONLY, 0)
	require.Equal(t, sys.EAGAIN, no)
	require.Zero(t, files[0].Close())
	require.Zero(t, files[0].Close(), "closing twice frees one")
	openFile(t, f, "mine", sys.O_RDONLY)
	_, no = f.OpenFile("mine", sys.O_RDONLY, 0)
	require.Equal(t, sys.EAGAIN, no)
	require.Zero(t, files[1].Close())
	for range 2 * rootfs.MaxOpenFiles {
		_, no = f.OpenFile("missing", sys.O_RDONLY, 0)
		require.Equal(t, sys.ENOENT, no, "failing to open holds nothing")
	}
}

func TestClosingAMountClosesWhatTheGuestLeftOpen(t *testing.T) {
	w := newWorld(t)
	f, err := rootfs.Open(w.mount, false)
	require.NoError(t, err)
	file, no := f.OpenFile("mine", sys.O_RDWR, 0)
	require.Zero(t, no)
	_, no = f.OpenFile(".", sys.O_RDONLY, 0)
	require.Zero(t, no)
	require.Len(t, descriptors(t, w.mount), 3)
	require.NoError(t, f.Close())
	require.Empty(t, descriptors(t, w.mount))
	require.Zero(t, file.Close())
	_, no = file.Read(make([]byte, 1))
	require.Equal(t, sys.EBADF, no)
	_, no = f.OpenFile("mine", sys.O_RDONLY, 0)
	require.Equal(t, sys.EBADF, no)
}

func TestAStoppedMountInterruptsLongTransfers(t *testing.T) {
	w := newWorld(t)
	f := mount(t, w, false)
	done := make(chan struct{})
	f.StopOn(func() <-chan struct{} { return done })
	file := openFile(t, f, "big", sys.O_RDWR|sys.O_CREAT)
	n, no := file.Write(make([]byte, 3<<20+1))
	require.Zero(t, no)
	require.Equal(t, 3<<20+1, n)
	n, no = file.Pread(make([]byte, 4<<20), 1)
	require.Zero(t, no)
	require.Equal(t, 3<<20, n)
	close(done)
	for _, transfer := range []func([]byte) (int, sys.Errno){file.Read, file.Write} {
		_, no = transfer([]byte("x"))
		require.Equal(t, sys.EINTR, no)
	}
	_, no = f.OpenFile("mine", sys.O_RDONLY, 0)
	require.Equal(t, sys.EINTR, no)
	require.Equal(t, sys.EINTR, f.Mkdir("d", 0o755))
}

func TestOpeningWithinADirectoryIsNotLedOutside(t *testing.T) {
	w := newWorld(t)
	f, err := rootfs.OpenWithin(w.mount, "sub/deep", true)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close(), "closing twice")
	f, err = rootfs.OpenWithin(w.mount, ".", true)
	require.NoError(t, err)
	require.Equal(t, w.mount, f.String())
	require.NoError(t, f.Close())
	for _, rest := range []string{"..", "../outside", "lying-dir", "lying-chain", "mine", "missing"} {
		_, err := rootfs.OpenWithin(w.mount, rest, true)
		require.Error(t, err, rest)
	}
	_, err = rootfs.Open(filepath.Join(w.mount, "mine"), true)
	require.Error(t, err)
}

// FuzzNoPathLeadsOutside makes a guest do anything, in any order.
func FuzzNoPathLeadsOutside(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03"))
	f.Add([]byte{5, 9, 2, 0, 12, 0, 3, 12, 1, 7, 12, 3})
	names := []string{"..", ".", "sub", "deep", "mine", "outside", "secret", "lying-dir", "lying-chain", "inner-dir", "a", "b", "/", "", "a/", "\x00"}
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 256 {
			return
		}
		w := newWorld(t)
		m := mount(t, w, false)
		next := func() byte {
			if len(program) == 0 {
				return 0
			}
			b := program[0]
			program = program[1:]
			return b
		}
		path := func() string {
			var parts []string
			for range next()%3 + 1 {
				parts = append(parts, names[int(next())%len(names)])
			}
			return strings.Join(parts, "/")
		}
		for len(program) > 0 {
			switch next() % 10 {
			case 0:
				if file, no := m.OpenFile(path(), sys.O_RDONLY, 0); no == 0 {
					buf := make([]byte, 64)
					n, _ := file.Read(buf)
					require.NotContains(t, string(buf[:n]), secret)
					_ = file.Close()
				}
			case 1:
				if file, no := m.OpenFile(path(), sys.O_RDWR|sys.O_CREAT|sys.O_TRUNC, 0o644); no == 0 {
					_, _ = file.Write([]byte("owned"))
					_ = file.Close()
				}
			case 2:
				_ = m.Symlink(path(), path())
			case 3:
				_ = m.Link(path(), path())
			case 4, 5:
				_ = m.Rename(path(), path())
			case 6:
				_ = m.Mkdir(path(), 0o755)
			case 7:
				_ = m.Unlink(path())
			case 8:
				_ = m.Rmdir(path())
			case 9:
				_ = m.Utimens(path(), int64(time.Second), int64(time.Second))
			}
		}
		w.requireUntouched(t)
	})
}
