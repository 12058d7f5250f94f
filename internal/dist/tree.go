package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// file is one that is installed.
type file struct {
	Path    string // from the top of a machine's file system
	Mode    fs.FileMode
	Content []byte
	Config  bool // people change it, and an upgrade leaves what they changed
}

// tree is all that is installed, sorted by path.
type tree []file

func (t *tree) add(path string, mode fs.FileMode, content []byte) {
	*t = append(*t, file{Path: path, Mode: mode, Content: content})
}

func (t *tree) addConfig(path string, content []byte) {
	*t = append(*t, file{Path: path, Mode: 0o644, Content: content, Config: true})
}

func (t tree) sorted() tree {
	slices.SortFunc(t, func(a, b file) int { return cmp.Compare(a.Path, b.Path) })
	return t
}

// ownDirectories are those that nothing else has files in, but not those of the configuration: who
// closes them for others, which may hold tokens, finds them closed after an upgrade.
func (t tree) ownDirectories() (dirs []string) {
	for _, f := range t {
		if f.Config {
			continue
		}
		for dir := path.Dir(f.Path); strings.Contains(dir, "/wasmnode"); dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// at returns the file at a path that is known to be there.
func (t tree) at(path string) file {
	return t[slices.IndexFunc(t, func(f file) bool { return f.Path == path })]
}

// moved is the tree for another prefix than /usr, with the texts in it that name a path. /etc
// and /var stay where they are.
func (t tree) moved(prefix string) tree {
	out := make(tree, len(t))
	for i, f := range t {
		if below, is := strings.CutPrefix(f.Path, "/usr/"); is {
			f.Path = path.Join(prefix, below)
		}
		if f.isText() {
			f.Content = []byte(strings.NewReplacer("/usr/bin/wasmnode", path.Join(prefix, "bin/wasmnode"),
				"/usr/share/wasmnode", path.Join(prefix, "share/wasmnode")).Replace(string(f.Content)))
		}
		out[i] = f
	}
	return out
}

// isText reports whether a path in the file is one of the node's own.
func (f file) isText() bool {
	return f.Config || strings.HasSuffix(f.Path, ".service") || strings.Contains(f.Path, "completion") || strings.HasSuffix(f.Path, ".hcl")
}

// write writes the tree below a directory. What people may have changed stays.
func (t tree) write(dir string) error {
	for _, f := range t {
		to := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if _, err := os.Stat(to); f.Config && err == nil {
			fmt.Println("kept", to)
			continue
		}
		// Beside its place, and then there: a binary that runs cannot be written to.
		if err := os.WriteFile(to+".new", f.Content, f.Mode); err != nil {
			return err
		}
		if err := os.Chmod(to+".new", f.Mode); err != nil {
			return err
		}
		if err := os.Rename(to+".new", to); err != nil {
			return err
		}
	}
	return nil
}
