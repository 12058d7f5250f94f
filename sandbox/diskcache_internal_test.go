package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

// newCache is a cache for so many bytes, and what it logs.
func newCache(t *testing.T, bound int64) (*diskCache, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	d, err := openDiskCache(filepath.Join(t.TempDir(), "cache"), bound, hclog.New(&hclog.LoggerOptions{Output: &log}))
	require.NoError(t, err)
	return d, &log
}

// put keeps ten bytes of code that was last used some time ago.
func (d *diskCache) put(t *testing.T, digest string, ago time.Duration) (dir string) {
	t.Helper()
	dir, err := d.keep(digest, d.compiled(t))
	require.NoError(t, err)
	then := time.Now().Add(-ago)
	require.NoError(t, os.Chtimes(filepath.Join(dir, sealName), then, then))
	return dir
}

// compiled is a directory that was begun, with ten bytes of code.
func (d *diskCache) compiled(t *testing.T) (partial string) {
	t.Helper()
	partial, err := d.begin()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(partial, "code"), []byte("0123456789"), 0o600))
	return partial
}

func (d *diskCache) digests(t *testing.T) (names []string) {
	t.Helper()
	dirs, err := os.ReadDir(d.dir)
	require.NoError(t, err)
	for _, dir := range dirs {
		names = append(names, dir.Name())
	}
	return names
}

func TestCodeThatIsNotAsItWasSealedIsRemoved(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"a byte":        func(dir string) error { return os.WriteFile(filepath.Join(dir, "code"), []byte("0123456780"), 0o600) },
		"a file less":   func(dir string) error { return os.Remove(filepath.Join(dir, "code")) },
		"a file more":   func(dir string) error { return os.WriteFile(filepath.Join(dir, "more"), nil, 0o600) },
		"another name":  func(dir string) error { return os.Rename(filepath.Join(dir, "code"), filepath.Join(dir, "mode")) },
		"a link":        func(dir string) error { return os.Symlink("code", filepath.Join(dir, "link")) },
		"no seal":       func(dir string) error { return os.Remove(filepath.Join(dir, sealName)) },
		"a seal in one": func(dir string) error { return os.WriteFile(filepath.Join(dir, sealName), nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			d, log := newCache(t, 1000)
			sound, damaged := d.put(t, "sound", time.Hour), d.put(t, "damaged", 0)
			require.NoError(t, damage(damaged))
			dir, err := d.open("damaged")
			require.NoError(t, err)
			require.Empty(t, dir)
			require.NoDirExists(t, damaged)
			require.Contains(t, log.String(), "compiled code is damaged")
			log.Reset()
			dir, err = d.open("sound")
			require.NoError(t, err)
			require.Equal(t, sound, dir)
			dir, err = d.open("unknown")
			require.NoError(t, err)
			require.Empty(t, dir)
			require.Empty(t, log.String())
		})
	}
}

func TestCodeIsKeptThatWasUsedLast(t *testing.T) {
	d, _ := newCache(t, 30)
	d.put(t, "oldest", 3*time.Hour)
	d.put(t, "older", 2*time.Hour)
	d.put(t, "old", time.Hour)
	require.Equal(t, []string{"old", "older", "oldest"}, d.digests(t), "as much as there may be")
	_, err := d.open("oldest") // which uses it
	require.NoError(t, err)
	d.put(t, "new", 0)
	require.Equal(t, []string{"new", "old", "oldest"}, d.digests(t))
	d.bound = 0
	d.put(t, "last", 9*time.Hour)
	require.Equal(t, []string{"last"}, d.digests(t), "what was just compiled, however large")
}

func TestAnotherProcessMayHaveKeptTheCodeBefore(t *testing.T) {
	d, _ := newCache(t, 1000)
	first := d.put(t, "code", 0)
	require.Equal(t, first, d.put(t, "code", 0))
	require.Equal(t, []string{"code"}, d.digests(t))

	require.NoError(t, os.Remove(filepath.Join(first, "code")))
	_, err := d.keep("code", d.compiled(t))
	require.Error(t, err, "what is there is not as good")

	partial := d.compiled(t)
	require.NoError(t, os.Symlink("code", filepath.Join(partial, "link")))
	_, err = d.keep("link", partial)
	require.ErrorContains(t, err, "link is not a file")
	require.NoDirExists(t, d.path("link"))
}

func TestWhatCompilesHaveLeftIsSwept(t *testing.T) {
	d, _ := newCache(t, 1000)
	d.put(t, "sealed", 0)
	require.NoError(t, os.Remove(filepath.Join(d.put(t, "unsealed", 0), sealName)))
	partial := filepath.Base(d.compiled(t))
	require.NoError(t, os.WriteFile(filepath.Join(d.path(partial), sealName), nil, 0o600), "its process died before the renaming")
	require.True(t, d.forget(partial))
	require.False(t, d.forget(partial))
	require.False(t, d.forget("unsealed"))
	partial = filepath.Base(d.compiled(t))
	require.NoError(t, os.WriteFile(filepath.Join(d.path(partial), sealName), nil, 0o600))

	d.sweep(time.Now().Add(sweepAfter - time.Minute))
	require.Equal(t, []string{partial, "sealed", "unsealed"}, d.digests(t), "somebody may be at work")
	d.sweep(time.Now().Add(sweepAfter + time.Minute))
	require.Equal(t, []string{"sealed"}, d.digests(t))
}

func TestTheCacheIsItsOwnersOnly(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	_, err := openDiskCache(dir, 1000, hclog.NewNullLogger())
	require.NoError(t, err)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	planted := filepath.Join(dir, "planted", sealName)
	for mode, left := range map[os.FileMode]bool{0o755: true, 0o775: false, 0o757: false} {
		require.NoError(t, os.MkdirAll(filepath.Dir(planted), 0o700))
		require.NoError(t, os.WriteFile(planted, nil, 0o600))
		require.NoError(t, os.Chmod(dir, mode))
		_, err = openDiskCache(dir, 1000, hclog.NewNullLogger())
		require.NoError(t, err)
		require.Equal(t, left, exists(planted), "what others could have written, with mode %o", mode)
	}

	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = openDiskCache(file, 1000, hclog.NewNullLogger())
	require.ErrorContains(t, err, "not a directory")
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestACacheThatOthersCanReplaceIsRefused has a directory above it be others' to write to.
func TestACacheThatOthersCanReplaceIsRefused(t *testing.T) {
	above := filepath.Join(t.TempDir(), "above")
	dir := filepath.Join(above, "between", "cache")
	for mode, sound := range map[os.FileMode]bool{0o755: true, 0o777: false, 0o775: false, 0o777 | os.ModeSticky: true} {
		require.NoError(t, os.MkdirAll(filepath.Dir(dir), 0o755))
		require.NoError(t, os.Chmod(above, mode))
		_, err := openDiskCache(dir, 1000, hclog.NewNullLogger())
		if sound {
			require.NoError(t, err, "%v", mode)
		} else {
			require.ErrorContains(t, err, above+" can be written to by others", "%v", mode)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Chmod(above, 0o777))
	require.NoError(t, os.Symlink(dir, link))
	_, err := openDiskCache(link, 1000, hclog.NewNullLogger())
	require.ErrorContains(t, err, above+" can be written to by others", "wherever a link is to it")
	require.NoError(t, os.Chmod(above, 0o755))
	elsewhere := t.TempDir()
	link = filepath.Join(above, "link")
	require.NoError(t, os.Symlink(elsewhere, link))
	_, err = openDiskCache(link, 1000, hclog.NewNullLogger())
	require.NoError(t, err, "a link that nobody else can have made")
	require.NoError(t, os.Chmod(elsewhere, 0o755))
	require.NoError(t, os.Chmod(above, 0o777))
	_, err = openDiskCache(link, 1000, hclog.NewNullLogger())
	require.ErrorContains(t, err, above+" can be written to by others", "who make the link")
	info, err := os.Stat(elsewhere)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm(), "it is left as it is")
	if os.Geteuid() != 0 {
		return // only root can give a directory away
	}
	require.NoError(t, os.Chmod(above, 0o755))
	require.NoError(t, os.Chown(above, 65534, 65534))
	for _, of := range []string{dir, link} {
		_, err = openDiskCache(of, 1000, hclog.NewNullLogger())
		require.ErrorContains(t, err, above+" belongs to the user 65534")
	}
}

func TestPruningLeavesWhatIsBeingWritten(t *testing.T) {
	d, _ := newCache(t, 10)
	partial := d.compiled(t)
	d.put(t, "kept", 0)
	require.DirExists(t, partial)
}

func TestCodeOfAnotherUserIsNotRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	d, log := newCache(t, 1000)
	dir := d.put(t, "code", 0)
	require.NoError(t, os.Chown(filepath.Join(dir, "code"), 65534, 65534))
	found, err := d.open("code")
	require.NoError(t, err)
	require.Empty(t, found)
	require.Contains(t, log.String(), "belongs to the user 65534")
}
