package sandbox

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/internal/failpoint"
)

// diskCache keeps compiled code, a directory for each digest of what was compiled. Its
// files are machine code: they are trusted only with a seal, a checksum of all of
// them, which detects damage, and below a directory that only its owner can write to,
// which keeps forgers out. One module of a digest is built at a time. Other processes
// may use the same directory: code appears there whole, by the renaming of its directory. What
// the machine's end cuts off does not match its seal, and is compiled again.
type diskCache struct {
	dir    string
	bound  int64 // bytes
	logger hclog.Logger
}

const (
	sealName = "seal"
	// codeName is a file with nothing but the machine code, to be mapped. It is compared with
	// what it is mapped in the place of, and is not sealed.
	codeName = "code.text"
	// partialPrefix begins the name of a directory that code is being put into.
	partialPrefix = "new-"
)

func openDiskCache(dir string, bound int64, logger hclog.Logger) (*diskCache, error) {
	// What is checked is what is used, wherever a link leads to later.
	dir, shared, err := prepareCacheDir(dir)
	if err != nil {
		return nil, err
	}
	d := &diskCache{dir: dir, bound: bound, logger: logger}
	if shared {
		if err := d.empty(); err != nil {
			return nil, err
		}
	}
	d.sweep(time.Now())
	return d, nil
}

// prepareCacheDir makes a directory for compiled code, or checks and closes one that is there,
// and reports whether others could write to it until now. It returns its path without links. A link
// is followed where nobody else could have made it: what it leads to is closed, and swept.
func prepareCacheDir(dir string) (real string, shared bool, err error) {
	_, before := os.Lstat(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", false, err
	}
	if real, err = filepath.EvalSymlinks(dir); err != nil {
		return "", false, err
	}
	if real, err = filepath.Abs(real); err != nil {
		return "", false, err
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", false, err
	}
	above, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return "", false, err
	}
	if err := cmp.Or(checkAncestors(filepath.Join(above, filepath.Base(dir))), checkOwner(real, info), checkAncestors(real)); err != nil {
		if errors.Is(before, fs.ErrNotExist) {
			_ = os.Remove(real) // made for nothing
		}
		return "", false, fmt.Errorf("%w: %w", ErrUntrustedCache, err)
	}
	if info.Mode().Perm() != 0o700 {
		err = os.Chmod(real, 0o700)
	}
	return real, info.Mode()&othersWrite != 0, err
}

// empty removes all code: others could write to the directory, and any of it may be theirs.
func (d *diskCache) empty() error {
	dirs, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	if len(dirs) > 0 {
		d.logger.Warn("others could write to the directory of compiled code; what is in it is removed", "dir", d.dir)
	}
	for _, dir := range dirs {
		err = errors.Join(err, os.RemoveAll(d.path(dir.Name())))
	}
	return err
}

// sweepAfter is how old something that is not in its place, sealed, is when nobody can be at
// work on it.
const sweepAfter = time.Hour

// sweep removes what compiles have left that were ended.
func (d *diskCache) sweep(now time.Time) {
	dirs, err := os.ReadDir(d.dir)
	if err != nil {
		return
	}
	for _, dir := range dirs {
		info, err := dir.Info()
		if err != nil || now.Sub(info.ModTime()) < sweepAfter {
			continue
		}
		if _, err := os.Stat(filepath.Join(d.path(dir.Name()), sealName)); errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(dir.Name(), partialPrefix) {
			_ = os.RemoveAll(d.path(dir.Name())) // the next start tries again
		}
	}
}

func (d *diskCache) path(digest string) string { return filepath.Join(d.dir, digest) }

// open returns the directory of a digest's code; empty: there is none. What is there and not
// sealed as it is, is removed.
func (d *diskCache) open(digest string) (dir string, err error) {
	dir = d.path(digest)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err = d.verify(dir); err == nil {
		now := time.Now()
		_ = os.Chtimes(filepath.Join(dir, sealName), now, now) // else it looks older than it is
		return dir, nil
	}
	if _, gone := os.Stat(dir); errors.Is(gone, fs.ErrNotExist) {
		return "", nil // another process removed it meanwhile
	}
	d.logger.Warn("compiled code is damaged; compiling again", "digest", digest, "error", err)
	return "", os.RemoveAll(dir)
}

// begin returns a directory of this process's own, to put a digest's code into.
func (d *diskCache) begin() (partial string, err error) { return os.MkdirTemp(d.dir, partialPrefix) }

// verify compares a directory with its seal.
func (d *diskCache) verify(dir string) error {
	want, err := os.ReadFile(filepath.Join(dir, sealName))
	if err != nil {
		return err
	}
	got, err := checksum(dir)
	if err != nil {
		return err
	}
	if string(want) != got {
		return errors.New("its checksum does not match")
	}
	return nil
}

// keep puts a directory that was begun in its digest's place, sealed, and keeps the cache
// within its bound. It returns where the code is then. Another process may have been
// faster: its code is as good.
func (d *diskCache) keep(digest, partial string) (dir string, err error) {
	sum, err := checksum(partial)
	if err == nil {
		err = os.WriteFile(filepath.Join(partial, sealName), []byte(sum), 0o600)
	}
	if err != nil {
		return "", err
	}
	dir = d.path(digest)
	failpoint.Here("engine.rename")
	if err := os.Rename(partial, dir); err != nil {
		if d.verify(dir) != nil {
			return "", err
		}
		return dir, os.RemoveAll(partial)
	}
	d.prune(digest)
	return dir, nil
}

// forget removes a digest's code and reports whether there was any.
func (d *diskCache) forget(digest string) bool {
	if _, err := os.Stat(filepath.Join(d.path(digest), sealName)); err != nil {
		return false
	}
	return os.RemoveAll(d.path(digest)) == nil
}

// prune removes what was used longest ago, but not keep, until the rest is within
// the bound. Code that is in use needs its name no more: what is mapped of a file stays, and so
// does its room on the disk until nothing is.
func (d *diskCache) prune(keep string) {
	type entry struct {
		digest string
		bytes  int64
		used   time.Time
	}
	dirs, err := os.ReadDir(d.dir)
	if err != nil {
		return
	}
	var entries []entry
	var total int64
	for _, dir := range dirs {
		if strings.HasPrefix(dir.Name(), partialPrefix) {
			continue // somebody is at work on it
		}
		e := entry{digest: dir.Name(), bytes: size(d.path(dir.Name()))}
		if info, err := os.Stat(filepath.Join(d.path(dir.Name()), sealName)); err == nil {
			e.used = info.ModTime()
		}
		total += e.bytes
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b entry) int { return a.used.Compare(b.used) })
	for _, e := range entries {
		if total <= d.bound {
			return
		}
		if e.digest == keep {
			continue
		}
		if err := os.RemoveAll(d.path(e.digest)); err != nil {
			d.logger.Warn("compiled code could not be removed", "digest", e.digest, "error", err)
			continue
		}
		total -= e.bytes
	}
}

// files calls f for every file below dir, in lexical order, but the seal.
func files(dir string, f func(path string, info fs.FileInfo) error) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Base(path) == sealName {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a file", e.Name())
		}
		if err := checkOwner(path, info); err != nil {
			return err // its owner wrote it
		}
		return f(path, info)
	})
}

func size(dir string) (total int64) {
	// What cannot be looked at counts for nothing: there is nothing to do about it.
	_ = files(dir, func(_ string, info fs.FileInfo) error {
		total += info.Size()
		return nil
	})
	return total
}

func checksum(dir string) (string, error) {
	sum := sha256.New()
	err := files(dir, func(path string, info fs.FileInfo) error {
		if filepath.Base(path) == codeName {
			return nil
		}
		fmt.Fprintf(sum, "%s %d\n", filepath.Base(path), info.Size())
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(sum, f)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}
