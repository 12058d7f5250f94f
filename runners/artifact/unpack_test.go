package artifact_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/artifact"
)

func ownerOf(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", stat.Uid, stat.Gid)
}

// entry is one entry of an archive that a test makes.
type entry struct {
	name, content, link string
	mode                fs.FileMode
	kind                byte // of tar; 0: by what is set
}

func tarred(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Mode: int64(e.mode.Perm()), Size: int64(len(e.content)), Typeflag: e.kind}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
			if e.link != "" {
				h.Typeflag = tar.TypeSymlink
			} else if e.mode.IsDir() {
				h.Typeflag = tar.TypeDir
			}
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		require.NoError(t, w.WriteHeader(h))
		_, err := io.WriteString(w, e.content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func zipped(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode | 0o644)
		content := e.content
		if e.link != "" {
			h.SetMode(fs.ModeSymlink | 0o777)
			content = e.link
		}
		f, err := w.CreateHeader(h)
		require.NoError(t, err)
		_, err = io.WriteString(f, content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func zstded(t *testing.T, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Close()) }()
	return w.EncodeAll(data, nil)
}

func TestArchivesAreUnpacked(t *testing.T) {
	content := []entry{
		{name: "app", mode: fs.ModeDir | 0o755},
		{name: "app/run", content: "run", mode: 0o755},
		{name: "app/current", link: "run"},
		{name: "doc/a", content: "a"},
	}
	whole := map[string]string{"app/run": "run", "app/current": "-> run", "doc/a": "a"}
	w := newWeb(t, map[string][]byte{
		"/a.tar": tarred(t, content...), "/a.tar.gz": gzipped(t, tarred(t, content...)), "/a.tgz": gzipped(t, tarred(t, content...)),
		"/a.tar.zst": zstded(t, tarred(t, content...)), "/a.zip": zipped(t, content...), "/plain": zipped(t, content...),
		"/one.tar": tarred(t, entry{name: "deep/one", content: "1"}), "/note.gz": gzipped(t, []byte("note")), "/note.zst": zstded(t, []byte("note")),
	})
	for _, c := range []struct {
		path, mode, dest string
		options          []string
		want             map[string]string
	}{
		{path: "/a.tar", want: whole},
		{path: "/a.tar.gz", want: whole},
		{path: "/a.tgz", mode: "dir", want: whole},
		{path: "/a.tar.zst", want: whole},
		{path: "/a.zip", want: whole},
		{path: "/plain", options: []string{"archive", "zip"}, want: whole},
		{path: "/a.zip//doc", want: map[string]string{"a": "a"}},
		{path: "/a.tar//app/", want: map[string]string{"run": "run", "current": "-> run"}},
		{path: "/one.tar", mode: "file", dest: "local/it", want: map[string]string{"it": "1"}},
		{path: "/note.gz", want: map[string]string{"note": "note"}},
		{path: "/note.zst", mode: "file", dest: "local/it", want: map[string]string{"it": "note"}},
	} {
		t.Run(c.path+c.mode, func(t *testing.T) {
			dir := taskDir(t)
			require.NoError(t, fetch(t, dir, block(w.URL+c.path, c.mode, c.dest, c.options...)))
			require.Equal(t, c.want, tree(t, dir.Local))
			if c.want["app/run"] != "" {
				info, err := os.Stat(filepath.Join(dir.Local, "app/run"))
				require.NoError(t, err)
				require.Equal(t, fs.FileMode(0o755), info.Mode())
			}
		})
	}
}

func TestAnArchiveIsWrittenOverWhatIsThere(t *testing.T) {
	w := newWeb(t, map[string][]byte{"/a.tar": tarred(t, entry{name: "d/f", content: "new"}, entry{name: "d/g", kind: tar.TypeLink, link: "d/f"})})
	dir := taskDir(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir.Local, "d"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir.Local, "d/f"), []byte("old"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir.Local, "d/kept"), []byte("kept"), 0o600))
	require.NoError(t, fetch(t, dir, block(w.URL+"/a.tar", "", "")))
	require.Equal(t, map[string]string{"d/f": "new", "d/g": "new", "d/kept": "kept"}, tree(t, dir.Local))
}

func TestSetUserBitsAreNotUnpacked(t *testing.T) {
	w := newWeb(t, map[string][]byte{"/a.tar": tarred(t, entry{name: "su", content: "x", mode: 0o755})})
	data := w.files["/a.tar"]
	var fixed bytes.Buffer
	in, out := tar.NewReader(bytes.NewReader(data)), tar.NewWriter(&fixed)
	h, err := in.Next()
	require.NoError(t, err)
	h.Mode = 0o6755
	require.NoError(t, out.WriteHeader(h))
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	w.files["/a.tar"] = fixed.Bytes()
	dir := taskDir(t)
	require.NoError(t, fetch(t, dir, block(w.URL+"/a.tar", "", "")))
	info, err := os.Stat(filepath.Join(dir.Local, "su"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode())
}

func TestHostileArchivesAreRefusedAndNothingIsWrittenOutside(t *testing.T) {
	many := make([]entry, 30)
	for i := range many {
		many[i] = entry{name: fmt.Sprint("f", i)}
	}
	bomb := make([]byte, 4<<20)
	for name, c := range map[string]struct {
		path, mode string
		data       []byte
		want       string
	}{
		"up in tar":         {path: "/a.tar", data: tarred(t, entry{name: "../../out", content: "x"}), want: "outside the destination"},
		"up inside":         {path: "/a.tar", data: tarred(t, entry{name: "a/../../out", content: "x"}), want: "outside the destination"},
		"up in zip":         {path: "/a.zip", data: zipped(t, entry{name: "../out", content: "x"}), want: "outside the destination"},
		"absolute":          {path: "/a.tar", data: tarred(t, entry{name: "/out", content: "x"}), want: "outside the destination"},
		"backslash":         {path: "/a.zip", data: zipped(t, entry{name: `..\out`, content: "x"}), want: "outside the destination"},
		"absolute link":     {path: "/a.tar", data: tarred(t, entry{name: "l", link: "/etc"}), want: "leads out"},
		"link up":           {path: "/a.zip", data: zipped(t, entry{name: "d/l", link: "../../x"}), want: "leads out"},
		"link up later":     {path: "/a.tar", data: tarred(t, entry{name: "s", link: "."}, entry{name: "l", link: "s/../x"}), want: "leads out"},
		"through a link":    {path: "/a.tar", data: tarred(t, entry{name: "s", link: "."}, entry{name: "s/s/s/l", link: "../../../x"}), want: "is a link or file"},
		"hard link out":     {path: "/a.tar", data: tarred(t, entry{name: "l", kind: tar.TypeLink, link: "../../out"}), want: "outside the destination"},
		"device":            {path: "/a.tar", data: tarred(t, entry{name: "d", kind: tar.TypeChar}), want: "neither a file"},
		"fifo":              {path: "/a.tar", data: tarred(t, entry{name: "d", kind: tar.TypeFifo}), want: "neither a file"},
		"gzip bomb":         {path: "/a.gz", data: gzipped(t, bomb), want: "that this node allows"},
		"zstd bomb":         {path: "/a.zst", data: zstded(t, bomb), want: "that this node allows"},
		"tar bomb":          {path: "/a.tgz", data: gzipped(t, tarred(t, entry{name: "f", content: string(bomb)})), want: "that this node allows"},
		"zip bomb":          {path: "/a.zip", data: zipped(t, entry{name: "f", content: string(bomb)}), want: "that this node allows"},
		"many files in tar": {path: "/a.tar", data: tarred(t, many...), want: "files that this node allows"},
		"many files in zip": {path: "/a.zip", data: zipped(t, many...), want: "files that this node allows"},
		"no gzip":           {path: "/a.tgz", data: []byte("<html>"), want: "not a gzip archive"},
		"no tar":            {path: "/a.tar", data: bytes.Repeat([]byte("x"), 600), want: "not a tar archive"},
		"no zip":            {path: "/a.zip", data: []byte("<html>"), want: "not a zip archive"},
		"cut off":           {path: "/a.tgz", data: gzipped(t, tarred(t, entry{name: "f", content: "xyz"}))[:60], want: "broken"},
		"empty":             {path: "/a.tar", data: tarred(t), want: "nothing in it"},
		"no such subdir":    {path: "/a.tar//b", data: tarred(t, entry{name: "f", content: "x"}), want: `nothing in it under "b"`},
		"two, not one":      {path: "/a.tar", mode: "file", data: tarred(t, entry{name: "f", content: "x"}, entry{name: "g", content: "y"}), want: "archive of one file"},
	} {
		t.Run(name, func(t *testing.T) {
			file := c.path
			if name == "no such subdir" {
				file = "/a.tar"
			}
			w := newWeb(t, map[string][]byte{file: c.data})
			dir := taskDir(t)
			dest := "local/d"
			err := fetch(t, dir, block(w.URL+c.path, c.mode, dest))
			require.ErrorIs(t, err, artifact.ErrRefused)
			require.ErrorContains(t, err, c.want)
			for path := range tree(t, dir.Alloc.Path()) {
				require.Regexp(t, `^web/local/d(/|$)`, path)
			}
		})
	}
}
