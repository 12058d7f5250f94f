package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// destination is the directory that an artifact is written to. Nothing is written
// outside it: neither through names, nor through links that are there or in an archive.
// It belongs to one goroutine.
type destination struct {
	ctx     context.Context
	root    *os.Root
	name    string // of the file, when a file is the destination
	single  bool
	subdir  string // only what is below it is written
	owner   *Owner
	left    *allowance
	written int // entries that are no directories
}

// open makes and opens the destination; file: it is a file.
func open(ctx context.Context, req Request, dest string, file bool, limits Limits) (*destination, error) {
	base, rel, err := req.Dir.Place(dest)
	if err != nil {
		return nil, err
	}
	defer func() { _ = base.Close() }()
	d := &destination{ctx: ctx, owner: req.Owner, left: &allowance{limits: limits, what: "unpack"}}
	if file {
		rel, d.name = path.Split(rel)
		if d.name == "" || d.name == "." {
			return nil, fmt.Errorf("%w: destination %q is not a file name", ErrRefused, dest)
		}
	}
	rel = path.Clean(rel)
	if err := base.MkdirAll(rel, 0o755); err != nil {
		return nil, d.failed("make the destination", err)
	}
	if d.root, err = base.OpenRoot(rel); err != nil {
		return nil, d.failed("open the destination", err)
	}
	return d, nil
}

func (d *destination) close() { _ = d.root.Close() }

// failed adds what was being done, where that is not the content's fault.
func (d *destination) failed(doing string, err error) error {
	if errors.Is(err, ErrRefused) || d.ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// entry writes one entry of an archive or tree. target is asked for a link's only.
func (d *destination) entry(name string, mode fs.FileMode, in io.Reader, target func() (string, error)) error {
	rel, found, err := wanted(name, d.subdir)
	if err != nil || !found {
		return err
	}
	switch mode.Type() {
	case 0:
		if d.single {
			rel = d.name
		}
		return d.file(rel, mode, in)
	case fs.ModeDir:
		if d.single {
			return nil
		}
		return d.dir(rel, mode)
	case fs.ModeSymlink:
		to, err := target()
		if err != nil {
			return fmt.Errorf("read the link %q: %w", name, err)
		}
		return d.symlink(rel, to)
	}
	return fmt.Errorf("%w: %q in it is neither a file, a directory nor a link", ErrRefused, name)
}

// file writes a file in the place of whatever has its name but a directory. What it
// reads is bounded by its caller.
func (d *destination) file(name string, mode fs.FileMode, in io.Reader) error {
	if err := d.clear(name); err != nil {
		return err
	}
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return d.failed("write "+name, err)
	}
	_, err = io.Copy(f, in)
	if err == nil {
		err = f.Chmod(mode.Perm() | 0o400) // no set-user bits
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = d.root.Remove(name) // half of a file is none
		return d.failed("write "+name, err)
	}
	return d.own(name)
}

func (d *destination) dir(name string, mode fs.FileMode) error {
	if name == "." {
		return nil
	}
	if err := d.left.takeFile(); err != nil {
		return err
	}
	if err := d.parents(name); err != nil {
		return err
	}
	if err := d.root.Chmod(name, mode.Perm()|0o700); err != nil {
		return d.failed("make "+name, err)
	}
	return d.own(name)
}

// symlink writes a link whose target, as it is written, stays in the destination.
func (d *destination) symlink(name, to string) error {
	if d.single || !staysInside(name, to) {
		return fmt.Errorf("%w: the link %q in it leads out of the destination", ErrRefused, name)
	}
	if err := d.clear(name); err != nil {
		return err
	}
	if err := d.root.Symlink(to, name); err != nil {
		return d.failed("link "+name, err)
	}
	return d.own(name)
}

// staysInside reports whether a link leads nowhere but into the tree that it is in. Only
// steps up at its beginning can be seen in the text: after a name they may start from
// wherever that name is a link to.
func staysInside(name, to string) bool {
	rest := to
	for strings.HasPrefix(rest, "../") {
		rest = rest[len("../"):]
	}
	if rest == ".." {
		rest = ""
	}
	inside := path.Join(path.Dir(name), to)
	return !path.IsAbs(to) && len(to) < maxTarget && inside != ".." && !strings.HasPrefix(inside, "../") &&
		!slices.Contains(strings.Split(rest, "/"), "..")
}

// hardlink writes a second name of a file that the archive has written.
func (d *destination) hardlink(name, to string) error {
	rel, found, err := wanted(name, d.subdir)
	if err != nil || !found {
		return err
	}
	old, found, err := wanted(to, d.subdir)
	if err != nil {
		return err
	}
	if !found || d.single {
		return fmt.Errorf("%w: %q in it is a link to something that is not written", ErrRefused, name)
	}
	if err := d.clear(rel); err != nil {
		return err
	}
	if err := d.root.Link(old, rel); err != nil {
		return d.failed("link "+rel, err)
	}
	return nil
}

// clear makes way for a file or link.
func (d *destination) clear(name string) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	if err := d.left.takeFile(); err != nil {
		return err
	}
	d.written++
	if dir := path.Dir(name); dir != "." {
		if err := d.parents(dir); err != nil {
			return err
		}
	}
	info, err := d.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return d.failed("write "+name, err)
	case info.IsDir():
		return fmt.Errorf("%w: %s is a directory where it has a file", ErrRefused, name)
	}
	if err := d.root.Remove(name); err != nil {
		return d.failed("replace "+name, err)
	}
	return nil
}

// parents makes directories. None of them may be a link: what is written has to be where
// its name says.
func (d *destination) parents(dir string) error {
	for i := range len(dir) + 1 {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		err := d.root.Mkdir(dir[:i], 0o755)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return d.failed("make "+dir[:i], err)
		}
		if info, err := d.root.Lstat(dir[:i]); err != nil || !info.IsDir() {
			return fmt.Errorf("%w: %s is a link or file where it has a directory", ErrRefused, dir[:i])
		}
	}
	return nil
}

func (d *destination) own(name string) error {
	if d.owner == nil {
		return nil
	}
	if err := d.root.Lchown(name, d.owner.UID, d.owner.GID); err != nil {
		return d.failed("chown "+name, err)
	}
	return nil
}

// bound makes a reader of content one that gives no more than may be written, and ends
// with the context.
func (d *destination) bound(in io.Reader) io.Reader { return &bounded{in, d} }

type bounded struct {
	in io.Reader
	d  *destination
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.d.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.in.Read(p)
	if over := b.d.left.take(int64(n)); over != nil {
		return n, over
	}
	if err != nil && !errors.Is(err, io.EOF) && b.d.ctx.Err() == nil {
		err = fmt.Errorf("%w: it is broken: %w", ErrRefused, err)
	}
	return n, err
}
