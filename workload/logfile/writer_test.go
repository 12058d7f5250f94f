package logfile_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/workload/logfile"
)

func open(t testing.TB, base string, files int, size int64) *logfile.Writer {
	t.Helper()
	w, err := logfile.Open(base, files, size)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func write(t testing.TB, w *logfile.Writer, text string) {
	t.Helper()
	n, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.Equal(t, len(text), n)
}

// contents returns a log's files by number.
func contents(t testing.TB, base string) map[int]string {
	t.Helper()
	numbers, err := logfile.Numbers(base)
	require.NoError(t, err)
	out := map[int]string{}
	for _, n := range numbers {
		b, err := os.ReadFile(logfile.Path(base, n))
		require.NoError(t, err)
		out[n] = string(b)
	}
	return out
}

func TestWriterRotatesAtLineEndsWithinTheBound(t *testing.T) {
	for _, tc := range []struct {
		name   string
		files  int
		size   int64
		writes []string
		want   map[int]string
	}{
		{"nothing written makes an empty file", 1, 1, nil, map[int]string{0: ""}},
		{"exactly full does not rotate", 2, 4, []string{"abc\n"}, map[int]string{0: "abc\n"}},
		{"the byte after full does", 2, 4, []string{"abc\n", "d"}, map[int]string{0: "abc\n", 1: "d"}},
		{"one write is split at a line end", 3, 8, []string{"one\ntwo\nthree\n"}, map[int]string{0: "one\ntwo\n", 1: "three\n"}},
		{"a line that fits into an empty file is not split", 3, 8, []string{"12345", "678\n"}, map[int]string{0: "12345", 1: "678\n"}},
		{"a line that fits into none is split at the bound", 3, 4, []string{"123456789\n"}, map[int]string{0: "1234", 1: "5678", 2: "9\n"}},
		{"the oldest go first", 2, 2, []string{"a\n", "b\n", "c\n"}, map[int]string{1: "b\n", 2: "c\n"}},
		{"one file is kept", 1, 2, []string{"a\n", "b\n"}, map[int]string{1: "b\n"}},
		{"files of one byte", 3, 1, []string{"abcd"}, map[int]string{1: "b", 2: "c", 3: "d"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base := filepath.Join(t.TempDir(), "web.stdout")
			w := open(t, base, tc.files, tc.size)
			for _, s := range tc.writes {
				write(t, w, s)
			}
			require.NoError(t, w.Err())
			require.Zero(t, w.Dropped())
			require.Equal(t, tc.want, contents(t, base))
		})
	}
}

func TestALogThatWouldKeepNothingIsRefused(t *testing.T) {
	base := filepath.Join(t.TempDir(), "web.stdout")
	for _, tc := range []struct {
		files int
		size  int64
	}{{0, 1}, {-1, 1}, {1, 0}, {1, -1}} {
		_, err := logfile.Open(base, tc.files, tc.size)
		require.Error(t, err)
	}
	_, err := logfile.Open(filepath.Join(t.TempDir(), "missing", "web.stdout"), 1, 1)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestReopeningContinuesAtTheHighestNumber(t *testing.T) {
	base := filepath.Join(t.TempDir(), "web.stdout")
	w := open(t, base, 3, 4)
	write(t, w, "a\nb\nc\n")
	require.NoError(t, w.Close())
	require.NoError(t, w.Close(), "closing twice")
	_, err := w.Write([]byte("x"))
	require.ErrorIs(t, err, os.ErrClosed)

	w = open(t, base, 3, 4)
	write(t, w, "d\ne\n")
	require.Equal(t, map[int]string{0: "a\nb\n", 1: "c\nd\n", 2: "e\n"}, contents(t, base))

	require.NoError(t, w.Close())
	open(t, base, 2, 4)
	require.Equal(t, map[int]string{1: "c\nd\n", 2: "e\n"}, contents(t, base), "fewer files are kept than before")
}

func TestFilesOfAnotherLogAreNotALogsFiles(t *testing.T) {
	dir := t.TempDir()
	base := filepath.Join(dir, "web.stdout")
	for _, name := range []string{"web.stdout", "web.stdout.", "web.stdout.01", "web.stdout.+1", "web.stdout.-1", "web.stdout.1x",
		"web.stdout.1000000000", "web.stdout.99999999999999999999", "web.stderr.5", "xweb.stdout.6"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("other"), 0o600))
	}
	w := open(t, base, 1, 2)
	write(t, w, "a\nb\n")
	require.Equal(t, map[int]string{1: "b\n"}, contents(t, base))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 11, "no file of another is removed")
}

func TestWriterGoesOnAfterItsFileOrDirectoryWasRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	require.NoError(t, os.Mkdir(dir, 0o700))
	base := filepath.Join(dir, "web.stdout")
	var reported []error
	w, err := logfile.OpenReporting(base, 2, 100, func(err error) { reported = append(reported, err) })
	require.NoError(t, err)
	defer func() { _ = w.Close() }()
	write(t, w, "lost with its file\n")
	require.NoError(t, os.Remove(logfile.Path(base, 0)))
	write(t, w, "in a new file\n")
	require.Equal(t, map[int]string{0: "in a new file\n"}, contents(t, base))

	require.NoError(t, os.RemoveAll(dir))
	write(t, w, "12345")
	write(t, w, "678")
	require.ErrorIs(t, w.Err(), os.ErrNotExist)
	require.EqualValues(t, 8, w.Dropped())
	require.Len(t, reported, 1, "once per streak")

	require.NoError(t, os.Mkdir(dir, 0o700))
	write(t, w, "back\n")
	require.NoError(t, w.Err())
	require.Equal(t, map[int]string{0: "back\n"}, contents(t, base))
	require.NoError(t, os.RemoveAll(dir))
	write(t, w, "x")
	require.Len(t, reported, 2, "a new streak")
}

func TestAFullDiskDropsAndCountsWithoutFailingTheProgram(t *testing.T) {
	// RLIMIT_FSIZE would hit the whole process; /dev/full is not a regular file.
	// A tmpfs of one page is a full disk for real, where mounting is allowed.
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4096"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	base := filepath.Join(dir, "web.stdout")
	w := open(t, base, 4, 1<<20)
	write(t, w, strings.Repeat("x", 10_000))
	require.ErrorIs(t, w.Err(), syscall.ENOSPC)
	require.EqualValues(t, 10_000-4096, w.Dropped())
	require.NoError(t, os.Truncate(logfile.Path(base, 0), 0))
	write(t, w, "room again\n")
	require.NoError(t, w.Err())
	require.Equal(t, map[int]string{0: "room again\n"}, contents(t, base))
}

func TestWhatATaskPlantsInItsLogDirectoryIsNotFollowed(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(outside, []byte("secret"), 0o600))
	plants := map[string]func(path string) error{
		"an absolute link": func(p string) error { return os.Symlink(outside, p) },
		"a link to a file beside": func(p string) error {
			return os.Symlink("beside", p)
		},
		"a dangling link": func(p string) error { return os.Symlink("nothing", p) },
		"a FIFO":          func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"a directory":     func(p string) error { return os.Mkdir(p, 0o700) },
	}
	for name, plant := range plants {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			beside := filepath.Join(dir, "beside")
			require.NoError(t, os.WriteFile(beside, []byte("beside"), 0o600))
			base := filepath.Join(dir, "web.stdout")
			require.NoError(t, plant(logfile.Path(base, 0)))
			w := open(t, base, 3, 2)
			write(t, w, "a\n")
			require.NoError(t, plant(logfile.Path(base, 2)))
			write(t, w, "b\n")
			require.NoError(t, w.Err())
			require.Equal(t, map[int]string{1: "a\n", 3: "b\n"}, contents(t, base))
			require.Equal(t, "a\nb\n", readAll(t, base))
			for _, p := range []string{outside, beside} {
				b, err := os.ReadFile(p)
				require.NoError(t, err)
				require.Equal(t, filepath.Base(p), string(b))
			}
		})
	}
}

func TestADirectoryThatATaskReplacedByALinkIsNotFollowed(t *testing.T) {
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "web.stdout.0"), []byte("secret"), 0o600))
	alloc := t.TempDir()
	base := filepath.Join(alloc, "logs", "web.stdout")
	require.NoError(t, os.Symlink(outside, filepath.Join(alloc, "logs")))
	_, err := logfile.Open(base, 1, 10)
	require.Error(t, err)
	_, err = logfile.Numbers(base)
	require.Error(t, err)
	require.Error(t, logfile.Follow(t.Context(), base, logfile.Options{}, func(logfile.Chunk) error {
		t.Fatal("read through the link")
		return nil
	}))
	b, err := os.ReadFile(filepath.Join(outside, "web.stdout.0"))
	require.NoError(t, err)
	require.Equal(t, "secret", string(b))
}

func TestTheLastNumberIsNotExceeded(t *testing.T) {
	base := filepath.Join(t.TempDir(), "web.stdout")
	require.NoError(t, os.WriteFile(logfile.Path(base, logfile.MaxNumber), []byte("a\n"), 0o600))
	w := open(t, base, 1, 2)
	write(t, w, "b\n")
	require.Error(t, w.Err())
	require.EqualValues(t, 2, w.Dropped())
	require.Equal(t, map[int]string{logfile.MaxNumber: "a\n"}, contents(t, base))
}

func TestWritersOfOneLogShareItsRotation(t *testing.T) {
	base := filepath.Join(t.TempDir(), "web.stdout")
	a, b := open(t, base, 5, 4), open(t, base, 5, 4)
	write(t, a, "a1\n")
	write(t, b, "b1\n")
	write(t, a, "a2\n")
	write(t, a, "a3\n")
	write(t, b, "b2\n")
	require.Equal(t, map[int]string{0: "a1\n", 1: "b1\n", 2: "a2\n", 3: "a3\n", 4: "b2\n"}, contents(t, base))
}

func TestConcurrentWritesLoseNothingAndKeepLinesWhole(t *testing.T) {
	const writers, lines = 8, 200
	base := filepath.Join(t.TempDir(), "web.stdout")
	w := open(t, base, 10_000, 256)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for j := range lines {
				_, err := fmt.Fprintf(w, "writer %d line %d\n", i, j)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, w.Err())
	seen := map[string]bool{}
	for _, text := range contents(t, base) {
		require.LessOrEqual(t, len(text), 256)
		for line := range strings.Lines(text) {
			seen[line] = true
		}
	}
	require.Len(t, seen, writers*lines)
}

// FuzzWriterKeepsTheBytes: whatever is written in whatever pieces, the files together
// hold it, in order, each within its bound.
func FuzzWriterKeepsTheBytes(f *testing.F) {
	f.Add([]byte("one\ntwo\nthree\n"), uint8(3), uint8(8))
	f.Add([]byte("\n\n\n"), uint8(1), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, piece, size uint8) {
		// A thousand files for one text would measure the file system.
		if len(text) > 1<<10 || len(text) > 64*(int(size)+1) {
			return
		}
		base := filepath.Join(t.TempDir(), "x")
		w := open(t, base, len(text)+1, int64(size)+1)
		for rest := text; len(rest) > 0; {
			n := min(int(piece)+1, len(rest))
			write(t, w, string(rest[:n]))
			rest = rest[n:]
		}
		require.NoError(t, w.Err())
		for _, s := range contents(t, base) {
			require.LessOrEqual(t, len(s), int(size)+1)
		}
		require.True(t, bytes.Equal(text, []byte(readAll(t, base))))
	})
}

func BenchmarkWriteLine(b *testing.B) {
	w := open(b, filepath.Join(b.TempDir(), "web.stdout"), 3, 10<<20)
	line := []byte(strings.Repeat("x", 79) + "\n")
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = w.Write(line)
	}
	require.NoError(b, w.Err())
}
