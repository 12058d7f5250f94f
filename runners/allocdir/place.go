package allocdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ErrEscape is returned for a path that is in none of a task's directories.
var ErrEscape = errors.New("is outside the task's directories")

// Place opens the directory that a path of a job's is in: the task's own or the one that
// tasks share, and gives the path in it. A path may be relative to the task's directory
// (local/a), as an isolated task sees it (/local/a, /alloc/a), or the host's. Nothing
// that is done through the root leaves it, whatever links there are. The error is
// [ErrEscape] or the file system's. The caller closes the root.
func (t *TaskDir) Place(path string) (*os.Root, string, error) {
	dir, rel, err := t.locate(path)
	if err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", fmt.Errorf("allocdir: %w", err)
	}
	return root, rel, nil
}

// Contains checks a path as Place does, without touching the disk.
func (t *TaskDir) Contains(path string) error {
	_, _, err := t.locate(path)
	return err
}

// Secret reports whether a path, as Place takes it, is in the directory for secrets.
func (t *TaskDir) Secret(path string) bool {
	dir, rel, err := t.locate(path)
	if err != nil {
		return false
	}
	_, in := within(t.Secrets, filepath.Join(dir, rel))
	return in
}

func (t *TaskDir) locate(path string) (dir, rel string, err error) {
	clean := filepath.Clean(path)
	if rel, found := within(t.Path, clean); found {
		return t.Path, rel, nil
	}
	// The shared directory by its names: the host's, a task's, and beside the task's.
	for _, name := range []string{t.Alloc.Shared(), "/" + SharedName, SharedName, "../" + SharedName} {
		if rel, found := within(name, clean); found {
			return t.Alloc.Shared(), rel, nil
		}
	}
	rel = strings.TrimPrefix(clean, "/")
	if rel == "" {
		rel = "."
	}
	if !filepath.IsLocal(rel) || strings.ContainsRune(rel, 0) {
		return "", "", fmt.Errorf("%q %w", path, ErrEscape)
	}
	return t.Path, rel, nil
}

// within gives what of a clean path is below dir.
func within(dir, path string) (rel string, found bool) {
	if path == dir {
		return ".", true
	}
	return strings.CutPrefix(path, dir+"/")
}
