package boltfile

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// wasteful makes a file most of whose pages are free, and returns its size.
func wasteful(t *testing.T, path string) int64 {
	t.Helper()
	f := openFile(t, path)
	require.NoError(t, f.Write(Op{Bucket: []string{"b", "c"}, Key: "kept", Value: []byte("x")}))
	fillAndEmpty(t, f)
	require.NoError(t, f.Close())
	return sizeOf(t, path)
}

// fillAndEmpty writes and removes so much that most of a file is free.
func fillAndEmpty(t *testing.T, f *File) {
	t.Helper()
	const large = 12 // MiB
	write := func(i int, value []byte) Op { return Op{Bucket: []string{"large"}, Key: fmt.Sprint(i), Value: value} }
	for i := range large {
		require.NoError(t, f.Write(write(i, make([]byte, 1<<20))))
	}
	for i := range large {
		require.NoError(t, f.Write(write(i, nil)))
	}
}

func TestAFileThatIsFullStaysAsItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	f := openFile(t, path)
	for i := range 12 {
		require.NoError(t, f.Write(Op{Bucket: []string{"large"}, Key: fmt.Sprint(i), Value: make([]byte, 1<<20)}))
	}
	require.NoError(t, f.Close())
	size := sizeOf(t, path)
	require.GreaterOrEqual(t, size, int64(leastCompacted))
	require.NoError(t, openFile(t, path).Close())
	require.Equal(t, size, sizeOf(t, path))
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

func TestAFileThatIsMostlyEmptyIsMadeSmaller(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	before := wasteful(t, path)
	require.GreaterOrEqual(t, before, int64(leastCompacted))
	f := openFile(t, path)
	require.Less(t, sizeOf(t, path), before/8)
	require.Equal(t, []byte("x"), value(t, f, "kept", "b", "c"))
	require.NoError(t, f.Write(Op{Bucket: []string{"b"}, Key: "later", Value: []byte("y")}))
	_, err := Open(path, testOptions)
	require.ErrorIs(t, err, ErrLocked, "it is locked as the one before was")
	require.NoError(t, f.Close())
	f = openFile(t, path)
	require.Equal(t, []byte("y"), value(t, f, "later", "b"))
	require.NoFileExists(t, path+".compact")
}

func TestWhatAKilledProgramLeftOfASmallerFileIsNotUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	before := wasteful(t, path)
	require.NoError(t, os.WriteFile(path+".compact", make([]byte, 1<<20), 0o600))
	f := openFile(t, path)
	require.Less(t, sizeOf(t, path), before/8)
	require.Equal(t, []byte("x"), value(t, f, "kept", "b", "c"))
	require.NoFileExists(t, path+".compact")
}

func TestAFileThatCannotBeMadeSmallerIsUsedAsItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	before := wasteful(t, path)
	require.NoError(t, os.MkdirAll(filepath.Join(path+".compact", "in the way"), 0o700))
	f := openFile(t, path)
	require.Equal(t, before, sizeOf(t, path))
	require.Equal(t, []byte("x"), value(t, f, "kept", "b", "c"))
}
