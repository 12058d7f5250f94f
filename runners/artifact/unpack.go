package artifact

import (
	"archive/tar"
	"archive/zip"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// format is the kind of an archive: what it is packed with, inside what compresses it.
type format struct{ packed, compressed string }

var (
	formatNone = format{}
	formatXz   = format{compressed: "xz"}
)

// tree reports whether there are several files in it.
func (f format) tree() bool { return f.packed != "" }

// formatOf recognises an archive by its name, as go-getter does.
func formatOf(name string) format {
	compressed := map[string]string{".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd", ".xz": "xz"}
	packed := map[string]string{".tgz": "gzip", ".tbz2": "bzip2", ".tzst": "zstd", ".txz": "xz", ".tar": ""}
	ext := path.Ext(name)
	f := format{}
	if c, is := compressed[ext]; is {
		f.compressed = c
		if path.Ext(strings.TrimSuffix(name, ext)) == ".tar" {
			f.packed = "tar"
		}
	} else if c, is := packed[ext]; is {
		f = format{packed: "tar", compressed: c}
	} else if ext == ".zip" {
		f.packed = "zip"
	}
	if f.compressed == "xz" {
		return formatXz
	}
	return f
}

// write brings what was downloaded to its destination.
func (s *source) write(ctx context.Context, got string, req Request, limits Limits) error {
	out, err := open(ctx, req, s.dest, s.file, limits)
	if err != nil {
		return err
	}
	defer out.close()
	out.subdir, out.single = s.subdir, s.file
	name := s.filename
	if s.file {
		name = out.name
	}
	switch {
	case s.git:
		err = out.copyTree(got)
	case s.format.packed == "zip":
		err = out.unzip(got)
	default:
		err = out.unpack(got, name, s.format)
	}
	switch {
	case err != nil:
		return err
	case out.written == 0:
		return fmt.Errorf("%w: there is nothing in it%s", ErrRefused, inside(s.subdir))
	case s.file && out.written > 1:
		return fmt.Errorf("%w: mode \"file\" needs an archive of one file, and it has %d", ErrRefused, out.written)
	}
	return nil
}

func inside(subdir string) string {
	if subdir == "" {
		return ""
	}
	return fmt.Sprintf(" under %q", subdir)
}

// unpack writes a file, or what is packed in it.
func (d *destination) unpack(got, name string, f format) error {
	file, err := os.Open(got)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	in, err := decompress(file, f.compressed)
	if err != nil {
		return fmt.Errorf("%w: it is not a %s archive: %w", ErrRefused, f.compressed, err)
	}
	defer func() { _ = in.Close() }()
	content := d.bound(in)
	if f.packed == "tar" {
		return d.untar(tar.NewReader(content))
	}
	if f.compressed != "" && !d.single {
		name = strings.TrimSuffix(name, path.Ext(name))
	}
	return d.file(name, 0o644, content)
}

// window bounds the memory that a zstd archive takes to unpack: its own tools' default.
const window = 128 << 20

func decompress(in io.Reader, how string) (io.ReadCloser, error) {
	switch how {
	case "gzip":
		return gzip.NewReader(in)
	case "bzip2":
		return io.NopCloser(bzip2.NewReader(in)), nil
	case "zstd":
		r, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return r.IOReadCloser(), nil
	}
	return io.NopCloser(in), nil
}

func (d *destination) untar(in *tar.Reader) error {
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return d.broken("tar", err)
		}
		mode := h.FileInfo().Mode()
		switch h.Typeflag {
		case tar.TypeXGlobalHeader:
			continue
		case tar.TypeLink:
			err = d.hardlink(h.Name, h.Linkname)
		default:
			err = d.entry(h.Name, mode, in, func() (string, error) { return h.Linkname, nil })
		}
		if err != nil {
			return err
		}
	}
}

func (d *destination) unzip(got string) error {
	file, err := os.Open(got)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	index := &readAt{in: file, left: indexRoom + d.left.limits.Files*indexEntry, limits: d.left.limits}
	in, err := zip.NewReader(index, info.Size())
	if err != nil {
		return d.broken("zip", err)
	}
	index.left = math.MaxInt64 // content is bounded as it is written
	for _, f := range in.File {
		if err := d.unzipFile(f); err != nil {
			return err
		}
	}
	return nil
}

// What reading a zip archive's index takes: the search for it, and an entry with a long
// name. It is read as a whole, so it has to be bounded beforehand.
const (
	indexRoom  = 1 << 20
	indexEntry = 1 << 10
)

type readAt struct {
	in     io.ReaderAt
	left   int64
	limits Limits
}

func (r *readAt) ReadAt(p []byte, off int64) (int, error) {
	if r.left -= int64(len(p)); r.left < 0 {
		return 0, tooManyFiles("its index", r.limits)
	}
	return r.in.ReadAt(p, off)
}

func (d *destination) broken(kind string, err error) error {
	if errors.Is(err, ErrRefused) || d.ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: it is not a %s archive, or a broken one: %w", ErrRefused, kind, err)
}

func (d *destination) unzipFile(f *zip.File) error {
	in, err := f.Open()
	if err != nil {
		return fmt.Errorf("%w: %q in it: %w", ErrRefused, f.Name, err)
	}
	defer func() { _ = in.Close() }()
	return d.entry(f.Name, f.Mode(), d.bound(in), func() (string, error) {
		target, err := io.ReadAll(io.LimitReader(in, maxTarget))
		return string(target), err
	})
}

// maxTarget bounds the target of a symbolic link: Linux's own bound of a path.
const maxTarget = 4096

// copyTree writes a directory's content.
func (d *destination) copyTree(dir string) error {
	src, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	return fs.WalkDir(src.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			return errors.Join(err, d.entry(name, e.Type(), nil, func() (string, error) { return src.Readlink(name) }))
		}
		file, err := src.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		return d.entry(name, info.Mode(), d.bound(file), nil)
	})
}

// wanted cuts the wanted subdirectory off an entry's name; found is false outside it.
func wanted(name, subdir string) (rel string, found bool, err error) {
	if slices.Contains(strings.Split(name, "/"), "..") || strings.HasPrefix(name, "/") || strings.ContainsAny(name, "\\\x00") {
		return "", false, fmt.Errorf("%w: %q in it would be written outside the destination", ErrRefused, name)
	}
	name = path.Clean(name)
	if subdir == "" || subdir == "." {
		return name, true, nil
	}
	if name == subdir {
		return ".", true, nil
	}
	rel, found = strings.CutPrefix(name, subdir+"/")
	return filepath.Clean(rel), found, nil
}
