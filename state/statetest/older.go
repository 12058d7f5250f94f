package statetest

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Unpacked is the path of a copy of a database that an older agent left, which the test's
// testdata has in a gzip file of that name. The copy may be written.
func Unpacked(t *testing.T, name string) string {
	t.Helper()
	packed, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer func() { require.NoError(t, packed.Close()) }()
	in, err := gzip.NewReader(packed)
	require.NoError(t, err)
	content, err := io.ReadAll(in)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "older.db")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}
