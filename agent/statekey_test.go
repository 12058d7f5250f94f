package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// inMemory returns a directory in one that is in memory, and is not there yet.
func inMemory(t *testing.T) string {
	t.Helper()
	var system unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &system); err != nil || system.Type != unix.TMPFS_MAGIC {
		t.Skip("/dev/shm is not in memory")
	}
	dir, err := os.MkdirTemp("/dev/shm", "wasmnode-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "wasmnode")
}

func TestTheKeyOfTheStateIsInMemory(t *testing.T) {
	memory, data := inMemory(t), t.TempDir()
	key, path, err := stateKey(data, []string{"/proc/wasmnode", memory})
	require.NoError(t, err)
	require.Len(t, key, 32)
	require.Equal(t, memory, filepath.Dir(path))
	require.NoFileExists(t, filepath.Join(data, keptKeyFile))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode())

	again, _, err := stateKey(data+"/.", []string{memory})
	require.NoError(t, err)
	require.Equal(t, key, again)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(data, link))
	again, _, err = stateKey(link, []string{memory})
	require.NoError(t, err)
	require.Equal(t, key, again, "it is the same directory")
	other, _, err := stateKey(t.TempDir(), []string{memory})
	require.NoError(t, err)
	require.NotEqual(t, key, other, "of another node of the machine")
}

func TestWithoutADirectoryInMemoryTheKeyIsBesideTheState(t *testing.T) {
	data := t.TempDir()
	key, path, err := stateKey(data, nil)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(data, keptKeyFile), path)
	again, path, err := stateKey(data, []string{inMemory(t)})
	require.NoError(t, err)
	require.Equal(t, key, again, "what there is goes on")
	require.Equal(t, filepath.Join(data, keptKeyFile), path)

	key, path, err = stateKey(filepath.Join(data, "nowhere"), nil)
	require.Error(t, err)
	require.Empty(t, path)
	require.Len(t, key, 32, "what runs goes on without it")
}

// /dev/shm is for everybody: what others lay there is neither read nor written to.
func TestADirectoryOfSomebodyElsesHasNoKey(t *testing.T) {
	for what, lay := range map[string]func(dir string) error{
		"open to others": func(dir string) error {
			return os.Chmod(dir, 0o777) //nolint:gosec // that is what is tried
		},
		"a link": func(dir string) error {
			to := t.TempDir()
			return errors.Join(os.Remove(dir), os.Symlink(to, dir))
		},
		"another's": func(dir string) error {
			if os.Geteuid() != 0 {
				return os.Chmod(dir, 0o777) //nolint:gosec // only root can give it away
			}
			return os.Chown(dir, 65534, 65534)
		},
	} {
		memory, data := inMemory(t), t.TempDir()
		require.NoError(t, os.Mkdir(memory, 0o700))
		require.NoError(t, lay(memory), what)
		_, path, err := stateKey(data, []string{memory})
		require.NoError(t, err)
		require.Equal(t, filepath.Join(data, keptKeyFile), path, what)
	}
	memory, data := inMemory(t), t.TempDir()
	_, path, err := stateKey(data, []string{memory})
	require.NoError(t, err)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o644)) //nolint:gosec // that is what is tried
	_, path, err = stateKey(data, []string{memory})
	require.NoError(t, err)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotEqual(t, before, after, "others may have read it")
}

func TestKeysOfDirectoriesThatAreGoneAreRemoved(t *testing.T) {
	memory, gone, stays := inMemory(t), t.TempDir(), t.TempDir()
	_, old, err := stateKey(gone, []string{memory})
	require.NoError(t, err)
	_, kept, err := stateKey(stays, []string{memory})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(memory, "other.key"), []byte("no key"), 0o600))
	require.NoError(t, os.Remove(gone))
	_, _, err = stateKey(t.TempDir(), []string{memory})
	require.NoError(t, err)
	require.NoFileExists(t, old)
	require.FileExists(t, kept)
	require.FileExists(t, filepath.Join(memory, "other.key"))
}
