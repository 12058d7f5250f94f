package pluginlock

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/wasmnode/wasmnode/internal/pluginsign"
)

// maxBundled bounds the plugins in a bundle.
const maxBundled = 256

// WriteBundle writes a directory's lock and the files that it locks as one tar archive, the
// lock first, and after each file its signature, if there is one. It fails where the directory
// differs from its lock. The same directory gives the same archive.
func (l *Lock) WriteBundle(w io.Writer, dir string, limit int64) error {
	if len(l.Plugins) > maxBundled {
		return fmt.Errorf("%d plugins, at most %d are bundled", len(l.Plugins), maxBundled)
	}
	archive := tar.NewWriter(w)
	text, err := l.text()
	if err != nil {
		return err
	}
	if err := add(archive, FileName, text); err != nil {
		return err
	}
	for _, e := range l.Plugins {
		content, err := readFile(filepath.Join(dir, e.File), limit)
		if err != nil {
			return err
		}
		if err := e.is(content); err != nil {
			return err
		}
		if err := add(archive, e.File, content); err != nil {
			return err
		}
		if err := addSignature(archive, dir, e.File); err != nil {
			return err
		}
	}
	return archive.Close()
}

// addSignature adds the signature of a file, if there is one.
func addSignature(archive *tar.Writer, dir, file string) error {
	content, err := readFile(filepath.Join(dir, file+pluginsign.Suffix), pluginsign.MaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(content) > pluginsign.MaxBytes:
		return fmt.Errorf("%s has more than %d bytes", file+pluginsign.Suffix, pluginsign.MaxBytes)
	}
	return add(archive, file+pluginsign.Suffix, content)
}

func add(archive *tar.Writer, name string, content []byte) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}

// is reports a content that is not the one of an entry.
func (e Entry) is(content []byte) error {
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != e.SHA256 || int64(len(content)) != e.Size {
		return fmt.Errorf("%s is not what the lock says: it should have SHA-256 %s", e.File, e.SHA256)
	}
	return nil
}

// Bundled is a plugin of a bundle.
type Bundled struct {
	Entry
	Content   []byte
	Signature []byte // as its file has it, which nobody has verified; nil: there is none
}

// ReadBundle reads what WriteBundle has written, and hands over each file, of at most limit
// bytes, once it is what the bundle's lock says. An archive that is another, or is cut off, is
// an error, perhaps after some files.
func ReadBundle(r io.Reader, limit int64, each func(Bundled) error) (*Lock, error) {
	b := &bundleReader{archive: tar.NewReader(r)}
	text, err := b.file(FileName, MaxBytes)
	if err != nil {
		return nil, err
	}
	l, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", FileName, err)
	}
	if len(l.Plugins) > maxBundled {
		return nil, fmt.Errorf("%d plugins, at most %d are bundled", len(l.Plugins), maxBundled)
	}
	for _, e := range l.Plugins {
		p, err := b.plugin(e, limit)
		if err != nil {
			return nil, err
		}
		if err := each(p); err != nil {
			return nil, err
		}
	}
	if b.next(); !errors.Is(b.err, io.EOF) {
		return nil, errors.New("something follows the last plugin")
	}
	return l, nil
}

// bundleReader reads the files of a bundle in turn.
type bundleReader struct {
	archive *tar.Reader
	header  *tar.Header // of the next file, once it was looked at
	err     error       // why there is none
}

// next looks at the next file.
func (b *bundleReader) next() {
	if b.header == nil && b.err == nil {
		b.header, b.err = b.archive.Next()
	}
}

// plugin reads the file of an entry, and its signature.
func (b *bundleReader) plugin(e Entry, limit int64) (p Bundled, err error) {
	p.Entry = e
	if p.Content, err = b.file(e.File, limit); err != nil {
		return p, err
	}
	if err := e.is(p.Content); err != nil {
		return p, err
	}
	if b.next(); b.header != nil && b.header.Name == e.File+pluginsign.Suffix {
		p.Signature, err = b.file(b.header.Name, pluginsign.MaxBytes)
	}
	return p, err
}

// file reads the file of that name, which has to be the next one.
func (b *bundleReader) file(name string, limit int64) ([]byte, error) {
	b.next()
	header := b.header
	switch {
	case errors.Is(b.err, io.EOF):
		return nil, fmt.Errorf("it ends where %s should be", name)
	case b.err != nil:
		return nil, fmt.Errorf("where %s should be: %w", name, b.err)
	case header.Name != name || header.Typeflag != tar.TypeReg:
		return nil, fmt.Errorf("it has %q where %s should be", header.Name, name)
	case header.Size > limit:
		return nil, fmt.Errorf("%s has %d bytes, the limit is %d", name, header.Size, limit)
	}
	b.header = nil
	content, err := io.ReadAll(io.LimitReader(b.archive, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return content, nil
}
