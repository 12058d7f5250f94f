package eventsink

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAFileHasALineForEachAndIsRotated(t *testing.T) {
	base := filepath.Join(t.TempDir(), "made", "events.ndjson")
	f, err := OpenFile(base, 2, 10)
	require.NoError(t, err)
	line := []byte("12345678 and more")[:8]
	for range 4 {
		require.NoError(t, f.Deliver(t.Context(), "id", line[:4]))
	}
	require.NoError(t, f.Sync())
	require.Equal(t, 1, f.synced)
	require.NoError(t, f.Sync(), "the newest once more, which may have grown")
	require.NoError(t, f.Close())
	files, err := filepath.Glob(base + "*")
	require.NoError(t, err)
	assert.Equal(t, []string{base + ".0", base + ".1"}, files)
	text, err := os.ReadFile(base + ".1")
	require.NoError(t, err)
	assert.Equal(t, "1234\n1234\n", string(text))
	assert.Equal(t, "12345678 and more", string(line[:17]), "the line is as it was")
	for range 3 {
		f, err = OpenFile(base, 2, 10)
		require.NoError(t, err)
		require.NoError(t, f.Deliver(t.Context(), "id", line))
		require.NoError(t, f.Close())
	}
	files, err = filepath.Glob(base + "*")
	require.NoError(t, err)
	assert.Equal(t, []string{base + ".3", base + ".4"}, files)
	info, err := os.Stat(base + ".4")
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o640), info.Mode().Perm()|0o040, "events have whole jobs in them")
}

func TestWhatAKilledAgentLeftOfALineIsALineOfItsOwn(t *testing.T) {
	base := filepath.Join(t.TempDir(), "events")
	require.NoError(t, os.WriteFile(base+".0", []byte("one\n{\"Eve"), 0o600))
	for range 2 {
		f, err := OpenFile(base, 2, 1000)
		require.NoError(t, err)
		require.NoError(t, f.Deliver(t.Context(), "id", []byte("two")))
		require.NoError(t, f.Close())
	}
	text, err := os.ReadFile(base + ".0")
	require.NoError(t, err)
	assert.Equal(t, "one\n{\"Eve\ntwo\ntwo\n", string(text))
}

func TestWhatAFullDiskLeftOfALineIsALineOfItsOwn(t *testing.T) {
	base := filepath.Join(t.TempDir(), "events")
	f, err := OpenFile(base, 2, 1000)
	require.NoError(t, err)
	for _, left := range []string{"{\"Eve", ""} {
		f.failed = true
		out, err := os.OpenFile(base+".0", os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = out.WriteString(left)
		require.NoError(t, err)
		require.NoError(t, out.Close())
		require.NoError(t, f.Deliver(t.Context(), "id", []byte("two")))
	}
	require.NoError(t, f.Close())
	text, err := os.ReadFile(base + ".0")
	require.NoError(t, err)
	assert.Equal(t, "{\"Eve\ntwo\ntwo\n", string(text))
}

func TestAFileThatCannotBeWrittenIsAnError(t *testing.T) {
	_, err := OpenFile("/proc/none/events", 1, 10)
	assert.Error(t, err)
	dir := t.TempDir()
	f, err := OpenFile(filepath.Join(dir, "e"), 1, 10)
	require.NoError(t, err)
	require.NoError(t, f.Deliver(t.Context(), "id", []byte("a")))
	require.NoError(t, os.RemoveAll(dir))
	err = f.Deliver(t.Context(), "id", []byte("a"))
	require.Error(t, err)
	assert.True(t, strings.HasPrefix(err.Error(), filepath.Join(dir, "e")+": "), err)
	require.NoError(t, f.Close())
	assert.ErrorIs(t, f.Deliver(t.Context(), "id", []byte("a")), os.ErrClosed)
}
