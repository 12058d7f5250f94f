package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// archive makes a directory of its own to unpack, for machines without a package manager that is
// known here.
func archive(t tree, r release, arch, out string) error {
	name := fmt.Sprintf("wasmnode_%s_linux_%s", r.Version, arch)
	var b bytes.Buffer
	if err := writeTar(&b, t.below("/"+name), r.Time); err != nil {
		return err
	}
	packed, err := compressed(b.Bytes())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, name+".tar.gz"), packed, 0o644)
}

// below is the tree in another directory.
func (t tree) below(dir string) tree {
	out := make(tree, len(t))
	for i, f := range t {
		f.Path = path.Join(dir, f.Path)
		out[i] = f
	}
	return out
}

// writeTar writes a tree that is sorted, with the directories that it needs: root's, and of one
// time. A file whose mode is that of a directory is one.
func writeTar(w io.Writer, t tree, at time.Time) error {
	tw, made := tar.NewWriter(w), map[string]bool{".": true}
	header := func(name string, mode fs.FileMode, size int) error {
		h := &tar.Header{Format: tar.FormatPAX, Name: name, Mode: int64(mode.Perm()), Size: int64(size), ModTime: at, Typeflag: tar.TypeReg}
		if mode.IsDir() {
			h.Name, h.Typeflag = name+"/", tar.TypeDir
			if mode&fs.ModeSticky != 0 {
				h.Mode |= 0o1000
			}
		}
		return tw.WriteHeader(h)
	}
	var parents func(dir string) error
	parents = func(dir string) error {
		if made[dir] {
			return nil
		}
		made[dir] = true
		if err := parents(path.Dir(dir)); err != nil {
			return err
		}
		return header(dir, fs.ModeDir|0o755, 0)
	}
	for _, f := range t {
		name := strings.TrimPrefix(f.Path, "/")
		if err := parents(path.Dir(name)); err != nil {
			return err
		}
		if f.Mode.IsDir() {
			made[name] = true
		}
		if err := header(name, f.Mode, len(f.Content)); err != nil {
			return err
		}
		if _, err := tw.Write(f.Content); err != nil {
			return err
		}
	}
	return tw.Close()
}
