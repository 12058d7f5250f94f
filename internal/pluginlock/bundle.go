package pluginlock

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"
)

// maxBundled bounds the plugins in a bundle.
const maxBundled = 256

// WriteBundle writes a directory's lock and the files that it locks as one tar archive, the
// lock first. It fails where the directory differs from its lock. The same directory gives
// the same archive.
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
	}
	return archive.Close()
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

// ReadBundle reads what WriteBundle has written, and hands over each file, of at most limit
// bytes, once it is what the bundle's lock says. An archive that is another, or is cut off, is
// an error, perhaps after some files.
func ReadBundle(r io.Reader, limit int64, each func(Entry, []byte) error) (*Lock, error) {
	archive := tar.NewReader(r)
	text, err := next(archive, FileName, MaxBytes)
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
		content, err := next(archive, e.File, limit)
		if err != nil {
			return nil, err
		}
		if err := e.is(content); err != nil {
			return nil, err
		}
		if err := each(e, content); err != nil {
			return nil, err
		}
	}
	if _, err := archive.Next(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the last plugin")
	}
	return l, nil
}

// next reads the file of that name, which has to be the next one.
func next(archive *tar.Reader, name string, limit int64) ([]byte, error) {
	header, err := archive.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("it ends where %s should be", name)
	case err != nil:
		return nil, fmt.Errorf("where %s should be: %w", name, err)
	case header.Name != name || header.Typeflag != tar.TypeReg:
		return nil, fmt.Errorf("it has %q where %s should be", header.Name, name)
	case header.Size > limit:
		return nil, fmt.Errorf("%s has %d bytes, the limit is %d", name, header.Size, limit)
	}
	content, err := io.ReadAll(io.LimitReader(archive, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return content, nil
}
