package allocdir

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// mounting skips a test where secrets cannot be in memory.
func mounting(t *testing.T) {
	t.Helper()
	if why, can := SecretsInMemory(t.TempDir()); !can {
		t.Skip("secrets cannot be in memory here: ", why)
	}
}

// inMemory is a task whose secrets directory is in memory, and has a secret.
func inMemory(t *testing.T, name string) (*Dir, *TaskDir) {
	t.Helper()
	mounting(t)
	d := New(filepath.Join(t.TempDir(), "with a space"), "a1")
	t.Cleanup(func() { require.NoError(t, UnmountBelow(d.root)) })
	require.NoError(t, os.Mkdir(filepath.Dir(d.root), 0o711))
	require.NoError(t, d.Build())
	task, err := d.Task(name)
	require.NoError(t, err)
	require.NoError(t, task.Build())
	require.NoError(t, task.ReadySecrets(true, DefaultSecretsMB))
	write(t, d, name+"/secrets/token", "secret")
	return d, task
}

func mounted(t *testing.T, d *Dir) []string {
	t.Helper()
	points, err := mountsBelow(d.root)
	require.NoError(t, err)
	return points
}

func TestSecretsInMemoryStayForTheNextAgentAndEndWithTheTask(t *testing.T) {
	d, task := inMemory(t, "web")
	info, err := os.Stat(task.Secrets)
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o700, info.Mode())
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(task.Secrets, &fs))
	require.EqualValues(t, unix.TMPFS_MAGIC, fs.Type)
	const flags = unix.ST_NOEXEC | unix.ST_NOSUID | unix.ST_NODEV
	require.EqualValues(t, flags, fs.Flags&flags)
	since := task.SecretsSince()

	require.NoError(t, task.ReadySecrets(true, DefaultSecretsMB), "as the next agent does")
	require.FileExists(t, filepath.Join(task.Secrets, "token"))
	require.Len(t, mounted(t, d), 1)
	require.Equal(t, since, task.SecretsSince())

	require.NoError(t, task.DropSecrets())
	require.NoError(t, task.DropSecrets(), "twice")
	require.Empty(t, mounted(t, d))
	require.NoFileExists(t, filepath.Join(task.Secrets, "token"), "it was never on the disk")

	require.NoError(t, task.ReadySecrets(true, DefaultSecretsMB), "as after the restart of the machine")
	require.NoFileExists(t, filepath.Join(task.Secrets, "token"))
	require.NotEqual(t, since, task.SecretsSince())
	require.NoError(t, d.Destroy())
	require.Empty(t, mounted(t, d))
	require.False(t, d.Exists())
}

// A start does not go on with what an earlier version, or a task that could write there, has left on
// the disk.
func TestWhatIsInThePlaceOfSecretsIsRemoved(t *testing.T) {
	mounting(t)
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.Mkdir(outside, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "kept"), nil, 0o600))
	for what, lay := range map[string]func(at string) error{
		"nothing":   func(string) error { return nil },
		"a link":    func(at string) error { return os.Symlink(outside, at) },
		"a file":    func(at string) error { return os.WriteFile(at, nil, 0o600) },
		"a pipe":    func(at string) error { return unix.Mkfifo(at, 0o600) },
		"old files": func(at string) error { return os.MkdirAll(filepath.Join(at, "old", "deep"), 0o777) },
	} {
		for _, memory := range []bool{true, false} {
			d := built(t, "web")
			task, err := d.Task("web")
			require.NoError(t, err)
			require.NoError(t, os.Remove(task.Secrets))
			require.NoError(t, lay(task.Secrets), what)
			require.NoError(t, task.ReadySecrets(memory, DefaultSecretsMB), what)
			info, err := os.Lstat(task.Secrets)
			require.NoError(t, err)
			require.True(t, info.IsDir(), what)
			require.Len(t, mounted(t, d), map[bool]int{true: 1}[memory], what)
			if memory {
				entries, err := os.ReadDir(task.Secrets)
				require.NoError(t, err)
				require.Empty(t, entries, what)
				require.NoError(t, task.DropSecrets())
				require.NoError(t, os.Remove(task.Secrets), "nothing is below the mount")
			}
			require.FileExists(t, filepath.Join(outside, "kept"))
		}
	}
}

func TestSecretsInMemoryAreBounded(t *testing.T) {
	_, task := inMemory(t, "web")
	fill := func(bytes int) error {
		return os.WriteFile(filepath.Join(task.Secrets, "large"), make([]byte, bytes), 0o600)
	}
	require.ErrorIs(t, fill(1<<20), unix.ENOSPC, "beside the token")
	require.NoError(t, fill(1<<20-4096))
	require.NoError(t, os.Remove(filepath.Join(task.Secrets, "large")))
	made, err := 2, error(nil) // with the token and the directory itself
	for ; err == nil && made <= filesPerMB; made++ {
		err = os.WriteFile(filepath.Join(task.Secrets, strconv.Itoa(made)), nil, 0o600)
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	require.Equal(t, filesPerMB+1, made)

	require.NoError(t, task.DropSecrets())
	require.NoError(t, task.ReadySecrets(true, 3))
	require.NoError(t, fill(3<<20))
	require.ErrorIs(t, fill(3<<20+1), unix.ENOSPC)
}

func TestSecretsInMemoryInUseEndForEverybodyElse(t *testing.T) {
	d, task := inMemory(t, "web")
	f, err := os.Open(filepath.Join(task.Secrets, "token"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, d.Destroy())
	require.Empty(t, mounted(t, d))
	content, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Equal(t, "secret", string(content), "as of a file that was removed")
}

// A task that runs as root can mount, and does not get its allocation's removal to remove more than it.
func TestNothingIsRemovedThroughAMount(t *testing.T) {
	d, task := inMemory(t, "web")
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "kept"), nil, 0o600))
	for _, name := range []string{"local/a", "local/a/sub", "secrets/b"} {
		at := filepath.Join(task.Path, name)
		require.NoError(t, os.MkdirAll(at, 0o700))
		require.NoError(t, unix.Mount(outside, at, "", unix.MS_BIND, ""))
	}
	require.NoError(t, d.Destroy())
	require.Empty(t, mounted(t, d))
	require.False(t, d.Exists())
	require.FileExists(t, filepath.Join(outside, "kept"))
	require.DirExists(t, filepath.Join(outside, "sub"))
}

func TestSecretsThatWereUnmountedReturnBeforeAnythingIsWritten(t *testing.T) {
	d, task := inMemory(t, "web")
	returned, err := task.ReturnSecrets(1)
	require.NoError(t, err)
	require.False(t, returned, "they are there")
	require.NoError(t, unix.Unmount(task.Secrets, 0))
	returned, err = task.ReturnSecrets(1)
	require.NoError(t, err)
	require.True(t, returned)
	require.Len(t, mounted(t, d), 1)

	require.NoError(t, unix.Unmount(task.Secrets, 0))
	write(t, d, "web/secrets/used", "by a task that an earlier version started")
	returned, err = task.ReturnSecrets(1)
	require.NoError(t, err)
	require.False(t, returned)
	require.FileExists(t, filepath.Join(task.Secrets, "used"))
}

func TestSecretsInMemoryAreNoPartOfADiskNorOfItsSize(t *testing.T) {
	d, task := inMemory(t, "web")
	before, err := d.Usage(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(task.Secrets, "more"), bytes.Repeat([]byte("x"), 500_000), 0o600))
	after, err := d.Usage(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, after)
	archive, _ := snapshotOf(t, d)
	require.NotContains(t, string(archive), "secret")
	to := built(t, "web")
	require.NoError(t, to.Move(d, []string{"web"}))
	require.NoFileExists(t, filepath.Join(to.Path(), "web/secrets/token"))
	_, err = d.Open("web/secrets/token", 0)
	require.ErrorIs(t, err, ErrSecret)
}

func TestTryingToMountLeavesNothing(t *testing.T) {
	mounting(t)
	d := New(t.TempDir(), "a1")
	require.NoError(t, d.Build())
	at := filepath.Join(d.root, ".secrets")
	require.NoError(t, os.Mkdir(at, 0o700))
	require.NoError(t, mountMemory(d.root, ".secrets", 1), "as an agent leaves it that was killed meanwhile")
	why, can := SecretsInMemory(d.root)
	require.True(t, can, why)
	require.Empty(t, mounted(t, d))
	require.NoDirExists(t, at)
}

func TestWhichPathsAreInSecrets(t *testing.T) {
	task, err := New("/x", "a1").Task("web")
	require.NoError(t, err)
	for path, in := range map[string]bool{
		"secrets": true, "secrets/": true, "/secrets/a": true, "./local/../secrets/a": true, "/x/a1/web/secrets/a": true,
		"": false, "local": false, "secretsauce": false, "alloc/secrets": false, "../alloc/secrets": false, "../../secrets": false,
	} {
		require.Equal(t, in, task.InSecrets(path), strings.TrimSpace(path))
	}
}
