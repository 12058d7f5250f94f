package logfile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/workload/logfile"
)

// testTimeout is how long a test waits for what must happen at once.
const testTimeout = time.Minute

func read(t testing.TB, base string, opts logfile.Options) (string, []string) {
	t.Helper()
	var text strings.Builder
	var frames []string
	require.NoError(t, logfile.Follow(t.Context(), base, opts, func(c logfile.Chunk) error {
		text.Write(c.Data)
		frames = append(frames, fmt.Sprintf("%s@%d", c.File, c.Offset))
		return nil
	}))
	return text.String(), frames
}

func readAll(t testing.TB, base string) string {
	t.Helper()
	text, _ := read(t, base, logfile.Options{})
	return text
}

func TestReadingBeginsWhereItIsAskedTo(t *testing.T) {
	base := filepath.Join(t.TempDir(), "web.stdout")
	w := open(t, base, 3, 4)
	write(t, w, "aa\n")
	write(t, w, "bbb\n")
	write(t, w, "c\n")
	for _, tc := range []struct {
		name   string
		opts   logfile.Options
		text   string
		frames []string
	}{
		{"from the start", logfile.Options{}, "aa\nbbb\nc\n", []string{"web.stdout.0@3", "web.stdout.1@4", "web.stdout.2@2"}},
		{"within the first file", logfile.Options{Offset: 1}, "a\nbbb\nc\n", []string{"web.stdout.0@3", "web.stdout.1@4", "web.stdout.2@2"}},
		{"at a file's end", logfile.Options{Offset: 3}, "bbb\nc\n", []string{"web.stdout.1@4", "web.stdout.2@2"}},
		{"in a later file", logfile.Options{Offset: 5}, "b\nc\n", []string{"web.stdout.1@4", "web.stdout.2@2"}},
		{"at the end", logfile.Options{Offset: 9}, "", nil},
		{"beyond the end", logfile.Options{Offset: 99}, "", nil},
		{"a negative offset", logfile.Options{Offset: -5}, "aa\nbbb\nc\n", []string{"web.stdout.0@3", "web.stdout.1@4", "web.stdout.2@2"}},
		{"the end itself", logfile.Options{FromEnd: true}, "", nil},
		{"back in the last file", logfile.Options{FromEnd: true, Offset: 1}, "\n", []string{"web.stdout.2@2"}},
		{"back into an earlier file", logfile.Options{FromEnd: true, Offset: 4}, "b\n" + "c\n", []string{"web.stdout.1@4", "web.stdout.2@2"}},
		{"back beyond the start", logfile.Options{FromEnd: true, Offset: 99}, "aa\nbbb\nc\n", []string{"web.stdout.0@3", "web.stdout.1@4", "web.stdout.2@2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text, frames := read(t, base, tc.opts)
			require.Equal(t, tc.text, text)
			require.Equal(t, tc.frames, frames)
		})
	}
}

func TestAMissingLogIsEmpty(t *testing.T) {
	require.Empty(t, readAll(t, filepath.Join(t.TempDir(), "web.stdout")))
	require.Empty(t, readAll(t, filepath.Join(t.TempDir(), "missing", "web.stdout")))
	err := logfile.Follow(t.Context(), filepath.Join(t.TempDir(), "missing", "web.stdout"), logfile.Options{Follow: true}, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestChunksAreBounded(t *testing.T) {
	base := filepath.Join(t.TempDir(), "web.stdout")
	write(t, open(t, base, 1, 1<<20), strings.Repeat("x", 2*logfile.ChunkBytes+1))
	_, frames := read(t, base, logfile.Options{})
	require.Equal(t, []string{"web.stdout.0@65536", "web.stdout.0@131072", "web.stdout.0@131073"}, frames)
}

// follower follows a log in the background.
type follower struct {
	chunks chan string
	done   chan error
	cancel context.CancelFunc
	stop   chan struct{}
}

func follow(t *testing.T, base string, opts logfile.Options) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	// The channel has room for every chunk of a test, so that no follower blocks.
	f := &follower{chunks: make(chan string, 100_000), done: make(chan error, 1), cancel: cancel, stop: make(chan struct{})}
	opts.Follow, opts.Stop = true, f.stop
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		f.done <- logfile.Follow(ctx, base, opts, func(c logfile.Chunk) error {
			f.chunks <- string(c.Data)
			return nil
		})
	}()
	t.Cleanup(func() { cancel(); <-finished })
	return f
}

// until collects what is followed until it ends in suffix.
func (f *follower) until(t *testing.T, suffix string) string {
	t.Helper()
	var text strings.Builder
	for !strings.HasSuffix(text.String(), suffix) {
		select {
		case s := <-f.chunks:
			text.WriteString(s)
		case <-time.After(testTimeout):
			t.Fatalf("%q did not come, only %q", suffix, text.String())
		}
	}
	return text.String()
}

func (f *follower) ended(t *testing.T) error {
	t.Helper()
	select {
	case err := <-f.done:
		return err
	case <-time.After(testTimeout):
		t.Fatal("following did not end")
		return nil
	}
}

func TestFollowingGoesAcrossRotations(t *testing.T) {
	base := filepath.Join(t.TempDir(), "web.stdout")
	f := follow(t, base, logfile.Options{})
	w := open(t, base, 1000, 16)
	var want strings.Builder
	for i := range 200 {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		write(t, w, line)
	}
	require.Equal(t, want.String(), f.until(t, "line 199\n"))
	write(t, w, "later\n")
	require.Equal(t, "later\n", f.until(t, "later\n"))
	f.cancel()
	require.NoError(t, f.ended(t))
}

func TestFollowingFromTheEndSkipsWhatWasThere(t *testing.T) {
	base := filepath.Join(t.TempDir(), "web.stdout")
	w := open(t, base, 2, 100)
	write(t, w, "old\n")
	f := follow(t, base, logfile.Options{FromEnd: true, Offset: 2})
	require.Equal(t, "d\n", f.until(t, "\n"))
	write(t, w, "new\n")
	require.Equal(t, "new\n", f.until(t, "\n"))
}

func TestFollowingEndsWhenTheTaskHasAndAllIsRead(t *testing.T) {
	base := filepath.Join(t.TempDir(), "web.stdout")
	f := follow(t, base, logfile.Options{})
	write(t, open(t, base, 2, 100), "last words\n")
	close(f.stop)
	require.NoError(t, f.ended(t))
	require.Equal(t, "last words\n", f.until(t, "\n"))
}

func TestFollowingEndsWithItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	require.NoError(t, os.Mkdir(dir, 0o700))
	base := filepath.Join(dir, "web.stdout")
	f := follow(t, base, logfile.Options{})
	write(t, open(t, base, 2, 100), "x\n")
	f.until(t, "x\n")
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, f.ended(t))
}

func TestFollowingReturnsWhatSendReturns(t *testing.T) {
	base := filepath.Join(t.TempDir(), "web.stdout")
	write(t, open(t, base, 2, 100), "x\n")
	gone := errors.New("client went away")
	err := logfile.Follow(t.Context(), base, logfile.Options{Follow: true}, func(logfile.Chunk) error { return gone })
	require.ErrorIs(t, err, gone)
}

func TestASlowFollowerGoesOnWithTheOldestFileThereIs(t *testing.T) {
	base := filepath.Join(t.TempDir(), "web.stdout")
	w := open(t, base, 2, 2)
	write(t, w, "a\n")
	first, resume := make(chan struct{}), make(chan struct{})
	stop := make(chan struct{})
	var text strings.Builder
	done := make(chan error, 1)
	go func() {
		done <- logfile.Follow(t.Context(), base, logfile.Options{Follow: true, Stop: stop}, func(c logfile.Chunk) error {
			if text.Len() == 0 {
				close(first)
				<-resume
			}
			text.Write(c.Data)
			return nil
		})
	}()
	<-first
	write(t, w, "b\nc\nd\n")
	close(resume)
	close(stop)
	require.NoError(t, <-done)
	require.Equal(t, "a\nc\nd\n", text.String())
}

func TestATruncatedFileIsReadFromItsStart(t *testing.T) {
	base := filepath.Join(t.TempDir(), "web.stdout")
	w := open(t, base, 2, 100)
	write(t, w, "a long first line\n")
	f := follow(t, base, logfile.Options{})
	f.until(t, "line\n")
	require.NoError(t, os.Truncate(logfile.Path(base, 0), 0))
	write(t, w, "new\n")
	require.Equal(t, "new\n", f.until(t, "new\n"))
}
