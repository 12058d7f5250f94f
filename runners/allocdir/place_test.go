package allocdir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlaceFindsATasksDirectoriesByAllTheirNames(t *testing.T) {
	d := built(t, "web", "db")
	task, err := d.Task("web")
	require.NoError(t, err)
	for path, want := range map[string]string{
		"local/f":                           "web/local/f",
		"/local/f":                          "web/local/f",
		"./local/../secrets/f":              "web/secrets/f",
		filepath.Join(task.Local, "f"):      "web/local/f",
		"f":                                 "web/f",
		"/":                                 "web",
		"":                                  "web",
		"alloc/data/f":                      "alloc/data/f",
		"/alloc/f":                          "alloc/f",
		"../alloc/f":                        "alloc/f",
		"../alloc":                          "alloc",
		filepath.Join(d.Data(), "f"):        "alloc/data/f",
		"allocated":                         "web/allocated",
		"local/../../alloc/f":               "alloc/f",
		"/etc/passwd":                       "web/etc/passwd",
		filepath.Join(d.Path(), "db/f")[1:]: "web" + filepath.Join(d.Path(), "db/f"),
	} {
		root, rel, err := task.Place(path)
		require.NoError(t, err, path)
		require.Equal(t, filepath.Join(d.Path(), want), filepath.Join(root.Name(), rel), path)
		require.NoError(t, root.Close())
	}
	for _, path := range []string{"..", "../db/local", "local/../../db", "../../x", "a\x00b"} {
		require.ErrorIs(t, task.Contains(path), ErrEscape, path)
	}
	require.NoError(t, task.Contains("/../../x"), "there is nothing above a root")
}

func TestNothingDoneThroughAPlaceLeavesItThroughALink(t *testing.T) {
	d := built(t, "web")
	task, err := d.Task("web")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(task.Local, "out")))
	root, rel, err := task.Place("local/out/f")
	require.NoError(t, err)
	defer func() { require.NoError(t, root.Close()) }()
	require.Error(t, root.WriteFile(rel, nil, 0o600))
}
