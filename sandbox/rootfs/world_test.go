package rootfs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// secret is what lies outside of the mount, and must not get into it.
const secret = "the secret outside"

// world is a directory to mount, with something outside of it to steal, and links
// that lie in it already.
type world struct {
	mount, outside string
}

func newWorld(t testing.TB) world {
	t.Helper()
	top := t.TempDir()
	w := world{filepath.Join(top, "mount"), filepath.Join(top, "outside")}
	for _, dir := range []string{w.outside, filepath.Join(w.mount, "sub", "deep")} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	for path, text := range map[string]string{
		filepath.Join(w.outside, "secret"):    secret,
		filepath.Join(w.mount, "mine"):        "mine",
		filepath.Join(w.mount, "sub", "mine"): "mine below",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	for name, target := range map[string]string{
		"lying-relative": "../outside/secret",
		"lying-absolute": filepath.Join(w.outside, "secret"),
		"lying-dir":      "../outside",
		"lying-chain":    "sub/chain",
		"sub/chain":      "../lying-dir",
		"lying-loop":     "lying-loop",
		"lying-proc":     "/proc/self/root",
		"inner-file":     "sub/mine",
		"inner-dir":      "sub/deep/..",
		"inner-absolute": filepath.Join(w.mount, "mine"),
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(w.mount, name)))
	}
	return w
}

// requireUntouched checks that nothing outside was changed, and that what is outside
// is not in the mount now.
func (w world) requireUntouched(t testing.TB) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(w.mount))
	require.NoError(t, err)
	require.Len(t, entries, 2, "something was made beside the mount")
	entries, err = os.ReadDir(w.outside)
	require.NoError(t, err)
	require.Len(t, entries, 1, "something was made or removed outside")
	path := filepath.Join(w.outside, "secret")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, secret, string(b))
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.Greater(t, info.ModTime().Year(), 2000, "its times were changed")
	require.NoError(t, filepath.WalkDir(w.mount, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		require.NotContains(t, string(b), secret, path)
		if os.IsPermission(err) {
			return nil
		}
		return err
	}))
}

// descriptors returns what the process has open below dir.
func descriptors(t testing.TB, dir string) []string {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	var open []string
	for _, fd := range fds {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(target, dir) {
			open = append(open, target)
		}
	}
	return open
}
