package boltfile

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// content is a closed file with a value in it, of a program's.
func content(t *testing.T, opts Options, text string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.db")
	f, err := Open(path, opts)
	require.NoError(t, err)
	require.NoError(t, f.Write(Op{Bucket: []string{"a"}, Key: "k", Value: []byte(text)}))
	require.NoError(t, f.Close())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

func copyOf(b []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(b); return err }
}

func TestAStagedDatabaseTakesTheFilesPlaceAtTheNextOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	require.NoError(t, os.WriteFile(path, content(t, testOptions, "now"), 0o600))
	f := openFile(t, path)
	require.NoError(t, f.Stage(copyOf(content(t, testOptions, "never"))))
	require.NoError(t, f.Stage(copyOf(content(t, testOptions, "then"))))
	require.Equal(t, []byte("now"), value(t, f, "k", "a"))
	require.NoError(t, f.Close())

	f = openFile(t, path)
	require.Equal(t, []byte("then"), value(t, f, "k", "a"))
	require.NoError(t, f.Close())
	replaced, err := filepath.Glob(path + ".replaced-*")
	require.NoError(t, err)
	require.Len(t, replaced, 1)
	require.Equal(t, []byte("now"), value(t, openFile(t, replaced[0]), "k", "a"))
	f = openFile(t, path)
	require.Equal(t, []byte("then"), value(t, f, "k", "a"), "once")
}

// TestWhatIsNotForThisProgramIsNotStaged, and leaves nothing behind.
func TestWhatIsNotForThisProgramIsNotStaged(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "f.db"))
	newer, other := testOptions, testOptions
	newer.Schema++
	other.Kind = "other file"
	good := content(t, testOptions, "v")
	for want, b := range map[string][]byte{
		"written by a newer version": content(t, newer, "v"),
		"a file of another kind":     content(t, other, "v"),
		"damaged":                    append(bytes.Clone(good[:8192]), make([]byte, len(good)-8192)...),
		"no valid meta page":         []byte("text"),
	} {
		require.ErrorContains(t, f.Stage(copyOf(b)), want)
	}
	require.ErrorIs(t, f.Stage(func(io.Writer) error { return io.ErrUnexpectedEOF }), io.ErrUnexpectedEOF)
	entries, err := os.ReadDir(filepath.Dir(f.Path()))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// TestAStagedDatabaseThatWasDamagedSinceIsNotTaken: nobody goes on with the one before
// unasked either.
func TestAStagedDatabaseThatWasDamagedSinceIsNotTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	require.NoError(t, openFile(t, path).Close())
	require.NoError(t, os.WriteFile(stagedPath(path), []byte("text"), 0o600))
	opts := testOptions
	opts.SetAside = true
	_, err := Open(path, opts)
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, stagedPath(path))
	require.NoError(t, os.Remove(stagedPath(path)))
	openFile(t, path)
}
