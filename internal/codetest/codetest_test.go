package codetest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// code makes compiled code as the engine leaves it.
func code(t *testing.T, dir, digest string, bytes int) {
	t.Helper()
	below := filepath.Join(dir, digest, "engine")
	require.NoError(t, os.MkdirAll(below, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(below, "code"), make([]byte, bytes), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, digest, seal), []byte("sum"), 0o600))
}

// repository makes a repository the working directory.
func repository(t *testing.T, wazero string) {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte(module+"\nrequire "+engine+wazero+"\n"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(root, "package"), 0o700))
	t.Chdir(filepath.Join(root, "package"))
}

func TestWhatAProcessCompiledTheNextOneHas(t *testing.T) {
	repository(t, "v1.0.0")
	first, second := t.TempDir(), t.TempDir()
	Restore(first)
	code(t, first, "large", minBytes)
	code(t, first, "small", 10)
	require.NoError(t, os.Mkdir(filepath.Join(first, "unsealed"), 0o700))
	Save(first)
	Save(first)
	require.NoError(t, os.RemoveAll(first))

	Restore(second)
	require.Equal(t, []string{"large"}, list(second))
	content, err := os.ReadFile(filepath.Join(second, "large", "engine", "code"))
	require.NoError(t, err)
	require.Len(t, content, minBytes)
	left, err := os.ReadDir(second)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func TestAnotherEnginesCodeIsNotUsed(t *testing.T) {
	repository(t, "v1.0.0")
	first, second := t.TempDir(), t.TempDir()
	code(t, first, "large", minBytes)
	Save(first)
	require.NoError(t, os.WriteFile("../go.mod", []byte(module+"\nrequire "+engine+"v1.1.0\n"), 0o600))
	Restore(second)
	require.Empty(t, list(second))
}

func TestWhatWasUsedLongestAgoGoesFirst(t *testing.T) {
	dir := t.TempDir()
	for i := range 4 {
		digest := fmt.Sprint(i)
		code(t, dir, digest, 10)
		used := time.Now().Add(-time.Duration(i) * time.Hour)
		require.NoError(t, os.Chtimes(filepath.Join(dir, digest, seal), used, used))
	}
	prune(dir, 2)
	require.Equal(t, []string{"0", "1"}, list(dir))
}

func TestOutsideOfTheRepositoryNothingIsKept(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := t.TempDir()
	code(t, dir, "large", minBytes)
	Save(dir)
	Restore(t.TempDir())
	require.Equal(t, []string{"large"}, list(dir))
}
