package allocdir

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func built(t *testing.T, tasks ...string) *Dir {
	t.Helper()
	d := New(t.TempDir(), "a1")
	require.NoError(t, d.Build())
	for _, name := range tasks {
		task, err := d.Task(name)
		require.NoError(t, err)
		require.NoError(t, task.Build())
	}
	return d
}

func write(t *testing.T, d *Dir, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(d.Path(), name), []byte(content), 0o600))
}

func TestBuildMakesNomadsLayoutWithItsModesWhateverTheUmask(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	d := built(t, "web")
	for name, mode := range map[string]fs.FileMode{
		".": 0o711, "alloc": 0o777, "alloc/logs": 0o777, "alloc/data": 0o777,
		"alloc/tmp": 0o777 | fs.ModeSticky,
		"web":       0o711, "web/local": 0o777, "web/secrets": 0o700, "web/tmp": 0o777 | fs.ModeSticky,
	} {
		info, err := os.Stat(filepath.Join(d.Path(), name))
		require.NoError(t, err)
		require.Equal(t, mode|fs.ModeDir, info.Mode(), name)
	}
}

func TestBuildTwiceKeepsWhatIsThere(t *testing.T) {
	d := built(t, "web")
	write(t, d, "web/local/f", "x")
	require.NoError(t, d.Build())
	task, err := d.Task("web")
	require.NoError(t, err)
	require.NoError(t, task.Build())
	require.FileExists(t, filepath.Join(task.Local, "f"))
}

func TestBuildRefusesAFileOrLinkWhereADirectoryBelongs(t *testing.T) {
	d := New(t.TempDir(), "a1")
	require.NoError(t, os.Mkdir(d.Path(), 0o700))
	require.NoError(t, os.Symlink(t.TempDir(), d.Shared()))
	require.ErrorContains(t, d.Build(), "is not a directory")
}

func TestTaskNamesThatNameNoDirectory(t *testing.T) {
	d := New("/x", "a1")
	for _, name := range []string{"", ".", "..", "a/b", `a\b`, "/abs", "alloc"} {
		_, err := d.Task(name)
		require.ErrorIs(t, err, ErrName, name)
	}
}

func TestMoveTakesDataAndLocalDirectories(t *testing.T) {
	parent := t.TempDir()
	from, to := New(parent, "old"), New(parent, "new")
	for _, d := range []*Dir{from, to} {
		require.NoError(t, d.Build())
		for _, name := range []string{"web", "db"} {
			task, err := d.Task(name)
			require.NoError(t, err)
			require.NoError(t, task.Build())
		}
	}
	write(t, from, "alloc/data/d", "data")
	write(t, from, "web/local/l", "local")
	write(t, from, "web/secrets/s", "secret")
	require.NoError(t, to.Move(from, []string{"web", "db", "gone"}))
	require.FileExists(t, filepath.Join(to.Data(), "d"))
	require.FileExists(t, filepath.Join(to.Path(), "web/local/l"))
	require.NoFileExists(t, filepath.Join(to.Path(), "web/secrets/s"))
}

func TestMoveNeverOverwrites(t *testing.T) {
	parent := t.TempDir()
	from, to := New(parent, "old"), New(parent, "new")
	require.NoError(t, from.Build())
	require.ErrorContains(t, to.Move(from, nil), "is not built")
	require.NoError(t, to.Build())
	write(t, to, "alloc/data/mine", "x")
	require.Error(t, to.Move(from, nil))
	require.FileExists(t, filepath.Join(to.Data(), "mine"))
}

func TestDestroyRemovesEvenWhatATaskLocked(t *testing.T) {
	d := built(t, "web")
	locked := filepath.Join(d.Path(), "web/local/locked")
	require.NoError(t, os.MkdirAll(filepath.Join(locked, "deep"), 0o700))
	require.NoError(t, os.Chmod(locked, 0))
	require.NoError(t, d.Destroy())
	require.NoError(t, d.Destroy())
	require.False(t, d.Exists())
}

func TestUsageCountsWhatIsOnDisk(t *testing.T) {
	d := built(t, "web")
	before, err := d.Usage(context.Background())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(d.Data(), "f"), make([]byte, 1<<20), 0o600))
	after, err := d.Usage(context.Background())
	require.NoError(t, err)
	require.GreaterOrEqual(t, after-before, int64(1<<20))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = d.Usage(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestReadingIsConfinedAndSecretsAreNotReadable(t *testing.T) {
	d := built(t, "web", "db")
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("no"), 0o600))
	write(t, d, "alloc/logs/web.stdout.0", "hello world")
	write(t, d, "web/secrets/token", "secret")
	write(t, d, "web/file", "plain")
	link := func(target, name string) {
		require.NoError(t, os.Symlink(target, filepath.Join(d.Path(), name)))
	}
	link("../secrets", "web/local/dir")
	link("../secrets/token", "web/local/tok")
	link("secrets/token", "web/tok")
	link("secrets", "web/sec")
	link("../web/secrets/token", "alloc/tok")
	link(outside, "alloc/out")
	link("logs/web.stdout.0", "alloc/latest")
	require.NoError(t, syscall.Mkfifo(filepath.Join(d.Path(), "alloc/pipe"), 0o600))

	read := func(name string, offset int64) (string, error) {
		f, err := d.Open(name, offset)
		if err != nil {
			return "", err
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		return string(b), err
	}
	for name, want := range map[string]string{
		"alloc/logs/web.stdout.0":         "world",
		"/alloc/logs/web.stdout.0":        "world",
		"alloc/latest":                    "world",
		"alloc/../alloc/./logs/../latest": "world",
	} {
		got, err := read(name, 6)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
	got, err := read("web/file", 0)
	require.NoError(t, err)
	require.Equal(t, "plain", got)
	for _, name := range []string{
		"web/secrets/token", "web/local/dir/token", "web/local/tok", "web/tok", "web/sec/token",
		"alloc/tok", "alloc/out", "../a1/web/secrets/token", "alloc/pipe", "alloc", "", "nosuch", "web/nosuch/x",
	} {
		_, err := read(name, 0)
		require.Error(t, err, name)
	}
	_, err = d.List("web/secrets")
	require.ErrorIs(t, err, ErrSecret)
	_, err = d.Stat("web/secrets/token")
	require.ErrorIs(t, err, ErrSecret)
	_, err = d.Open("alloc/pipe", 0)
	require.ErrorIs(t, err, ErrNotRegular)
	_, err = d.Stat("nosuch")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestADirectoryOfTooManyEntriesIsNotListed(t *testing.T) {
	d := built(t, "web")
	for i := range maxListed {
		write(t, d, "alloc/data/"+strconv.Itoa(i), "")
	}
	entries, err := d.List("alloc/data")
	require.NoError(t, err)
	require.Len(t, entries, maxListed)
	write(t, d, "alloc/data/more", "")
	_, err = d.List("alloc/data")
	require.EqualError(t, err, `allocdir: list: "alloc/data" has more than 10000 entries`)
}

func TestListAndStat(t *testing.T) {
	d := built(t, "web")
	write(t, d, "alloc/data/b", "12")
	write(t, d, "alloc/data/a", "1")
	names := func(path string) (out []string) {
		entries, err := d.List(path)
		require.NoError(t, err)
		for _, e := range entries {
			out = append(out, e.Name)
		}
		return out
	}
	require.Equal(t, []string{"alloc", "web"}, names("/"))
	require.Equal(t, []string{"local", "secrets", "tmp"}, names("web"))
	require.Equal(t, []string{"a", "b"}, names("alloc/data"))
	e, err := d.Stat("alloc/data/b")
	require.NoError(t, err)
	require.Equal(t, "b", e.Name)
	require.EqualValues(t, 2, e.Size)
	e, err = d.Stat("alloc/data")
	require.NoError(t, err)
	require.True(t, e.IsDir)
	require.Equal(t, "data", e.Name)
}
