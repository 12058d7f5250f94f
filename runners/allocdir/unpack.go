package allocdir

import (
	"archive/tar"
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
	"syscall"
)

// ErrDisk is returned for a disk of another node that is not taken.
var ErrDisk = errors.New("allocdir: the disk is not taken")

// A disk that comes from another node is unpacked where no task can write, gets its other name
// when it is whole, and is moved to its places from there: an agent that is killed meanwhile has
// it again, or goes on with the move.
const (
	diskPart  = ".disk.part"
	diskWhole = ".disk"
	// localsName is where the tasks' local directories are in it, by task.
	localsName = "locals"
)

// Unpack takes over the disk of another node's allocation, from its snapshot: the shared data
// directory, and the local directories of the tasks named; other tasks' are skipped. Nothing is written
// anywhere else, whatever the archive says. At most sizeMB is taken, or half of what the file system has left
// where that is more, with 4 KiB for each file, and at most [MaxDiskEntries]. Devices, pipes, other names of files,
// and links that go up from a directory that they name (a/../b) are left out, and how many were is returned. Nothing
// of the disk may be there yet. After an error nothing is taken; one that is the archive's is ErrDisk.
func (d *Dir) Unpack(ctx context.Context, in io.Reader, tasks []string, sizeMB int) (leftOut int, err error) {
	room, err := d.room(sizeMB)
	if err != nil {
		return 0, err
	}
	leftOut, err = d.unpack(ctx, in, tasks, room)
	if err != nil {
		return leftOut, errors.Join(err, removeAll(filepath.Join(d.root, diskPart)))
	}
	_, err = d.Settle(tasks)
	return leftOut, err
}

// room is how much a disk of another node may have.
type room struct {
	bytes   int64
	entries int
}

func (d *Dir) room(sizeMB int) (room, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(d.root, &s); err != nil {
		return room{}, fmt.Errorf("allocdir: unpack: %w", WithoutPath(err))
	}
	free := min(s.Bavail, math.MaxInt64/uint64(s.Bsize)) * uint64(s.Bsize)
	return room{max(int64(free/2), int64(min(sizeMB, math.MaxInt>>20))<<20), MaxDiskEntries}, nil
}

func (d *Dir) unpack(ctx context.Context, in io.Reader, tasks []string, room room) (leftOut int, err error) {
	part := filepath.Join(d.root, diskPart)
	if err := removeAll(part); err != nil { // of an agent that was killed
		return 0, err
	}
	for _, dir := range []string{part, filepath.Join(part, DataName), filepath.Join(part, localsName)} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return 0, fmt.Errorf("allocdir: unpack: %w", WithoutPath(err))
		}
	}
	root, err := os.OpenRoot(part)
	if err != nil {
		return 0, fmt.Errorf("allocdir: unpack: %w", WithoutPath(err))
	}
	defer root.Close()
	u := &unpacking{ctx: ctx, root: root, tasks: tasks, room: room, owners: os.Geteuid() == 0, known: map[string]bool{}}
	if err := u.all(in); err != nil {
		return u.leftOut, err
	}
	if err := os.Rename(part, filepath.Join(d.root, diskWhole)); err != nil {
		return u.leftOut, fmt.Errorf("allocdir: unpack: %w", WithoutPath(err))
	}
	return u.leftOut, nil
}

// Settle moves a disk that was unpacked to its places, and reports whether there was one.
func (d *Dir) Settle(tasks []string) (was bool, err error) {
	whole := filepath.Join(d.root, diskWhole)
	if _, err := os.Lstat(whole); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err := rename(filepath.Join(whole, DataName), d.Data()); err != nil {
		return true, err
	}
	for _, name := range tasks {
		task, err := d.Task(name)
		if err != nil {
			return true, err
		}
		if err := build(wanted{task.Path, modeRoot}); err != nil {
			return true, err
		}
		if err := rename(filepath.Join(whole, localsName, name), task.Local); err != nil {
			return true, err
		}
	}
	return true, removeAll(whole)
}

// Holds reports whether something is on the allocation's disk.
func (d *Dir) Holds(tasks []string) bool {
	dirs := []string{d.Data()}
	for _, name := range tasks {
		if task, err := d.Task(name); err == nil {
			dirs = append(dirs, task.Local)
		}
	}
	return slices.ContainsFunc(dirs, func(name string) bool {
		dir, err := os.Open(name)
		if err != nil {
			return false
		}
		defer dir.Close()
		_, err = dir.Readdirnames(1)
		return err == nil
	})
}

// unpacking is an archive on its way to the disk. It belongs to one goroutine.
type unpacking struct {
	ctx     context.Context
	root    *os.Root
	tasks   []string
	room    room
	taken   int64
	entries int
	leftOut int
	owners  bool // files can be given to their owners
	// known are directories that are there and no links; nothing takes one away again.
	known map[string]bool
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDisk, fmt.Errorf(format, args...))
}

// headers is what an entry takes in an archive besides its content.
const headers = 4 << 10

func (u *unpacking) all(in io.Reader) error {
	// Also what is skipped has an end.
	limit := u.room.bytes + int64(min(u.room.entries, math.MaxInt64/headers))*headers
	if limit < 0 {
		limit = math.MaxInt64
	}
	archive := tar.NewReader(&bounded{u.ctx, in, limit})
	for {
		h, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return u.open()
		case err != nil && (errors.Is(err, ErrDisk) || u.ctx.Err() != nil):
			return err
		case err != nil:
			return refuse("it is no whole archive: %w", err)
		}
		if err := u.count(); err != nil {
			return err
		}
		if err := u.entry(h, archive); err != nil {
			return err
		}
	}
}

// bounded gives no more than may be read, and ends with its context.
type bounded struct {
	ctx  context.Context
	in   io.Reader
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.in.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, refuse("it does not end")
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, ErrDisk) && b.ctx.Err() == nil {
		err = refuse("it breaks off: %w", err)
	}
	return n, err
}

func (u *unpacking) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if strings.HasPrefix(h.Name, "NOMAD-") && strings.HasSuffix(h.Name, "-ERROR.log") {
		text, _ := io.ReadAll(io.LimitReader(content, 512)) // what can be read of it
		return refuse("its node could not send it: %.512q", text)
	}
	name, wanted, err := u.place(h.Name)
	if err != nil || !wanted {
		return err
	}
	if h.Uid < 0 || h.Gid < 0 || int64(h.Uid) > math.MaxUint32 || int64(h.Gid) > math.MaxUint32 {
		return refuse("%.100q in it belongs to nobody", h.Name)
	}
	if top := path.Dir(name); h.Typeflag != tar.TypeDir && (top == "." || top == localsName) {
		return refuse("%.100q in it is no directory", h.Name)
	}
	mode := fs.FileMode(h.Mode).Perm() // no set-user bits
	switch h.Typeflag {
	case tar.TypeDir:
		err = u.dir(name, mode)
	case tar.TypeReg:
		err = u.file(name, mode, content)
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) > maxPath || !staysInside(h.Name, h.Linkname) {
			return refuse("the link %.100q in it leads out of the allocation's directory", h.Name)
		}
		if goesBackUp(h.Linkname) {
			u.leftOut++
			return nil
		}
		err = u.link(name, h.Linkname)
	default:
		u.leftOut++
		return nil
	}
	if err == nil && u.owners {
		err = u.root.Lchown(name, h.Uid, h.Gid)
		if err == nil && h.Typeflag == tar.TypeReg { // which a change of owners may have changed
			err = u.root.Chmod(name, mode)
		}
	}
	if err != nil && !errors.Is(err, ErrDisk) && u.ctx.Err() == nil {
		return fmt.Errorf("allocdir: unpack %.100q: %w", h.Name, WithoutPath(err))
	}
	return err
}

// place is where an entry goes; wanted is false for a task's that is not to be had.
func (u *unpacking) place(given string) (name string, wanted bool, err error) {
	name = strings.TrimSuffix(given, "/")
	if !filepath.IsLocal(name) || path.Clean(name) != name || len(name) > maxPath || strings.ContainsAny(name, "\\\x00") {
		return "", false, refuse("%.100q in it would be written outside the allocation's directory", given)
	}
	if strings.Count(name, "/") > maxDiskDepth+2 {
		return "", false, refuse("its directories are more than %d deep", maxDiskDepth)
	}
	parts := strings.SplitN(name, "/", 3)
	rest := ""
	if len(parts) == 3 {
		rest = parts[2]
	}
	switch {
	case len(parts) >= 2 && parts[0] == SharedName && parts[1] == DataName:
		return path.Join(DataName, rest), true, nil
	case len(parts) >= 2 && parts[0] != SharedName && parts[1] == LocalName:
		return path.Join(localsName, parts[0], rest), slices.Contains(u.tasks, parts[0]), nil
	}
	return "", false, refuse("%.100q in it is of no disk", given)
}

// staysInside reports whether a link, as it is written, leads nowhere but into the allocation's directory. A
// path that begins at the root is one of the task's, which may see its directories there. The node follows neither.
func staysInside(name, to string) bool {
	return path.IsAbs(to) || filepath.IsLocal(path.Join(path.Dir(name), to))
}

// goesBackUp reports whether a link goes up from a directory that it names. Where that is a link, too, this may
// be out of the allocation's directory, although neither of them is. A path that begins at the root is one of the task's.
func goesBackUp(to string) bool {
	parts := strings.Split(to, "/")
	down := slices.IndexFunc(parts, func(part string) bool { return part != ".." && part != "." && part != "" })
	return !path.IsAbs(to) && down >= 0 && slices.Contains(parts[down:], "..")
}

func (u *unpacking) dir(name string, mode fs.FileMode) error {
	if err := u.parents(name); err != nil {
		return err
	}
	return u.root.Chmod(name, mode|0o700) // what is in it is still to be written, and to be removed some day
}

// open gives the tasks the directories that an archive has as those that they would have had.
func (u *unpacking) open() error {
	names := []string{DataName}
	for _, task := range u.tasks {
		names = append(names, path.Join(localsName, task))
	}
	for _, name := range names {
		if err := u.root.Chmod(name, modeShared); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("allocdir: unpack: %w", WithoutPath(err))
		}
	}
	return nil
}

// file writes a file in the place of whatever has its name but a directory.
func (u *unpacking) file(name string, mode fs.FileMode, content io.Reader) error {
	if err := u.makeWay(name); err != nil {
		return err
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	// One byte more tells that there are too many. The reader may make up what is not in the archive.
	n, err := io.Copy(f, &bounded{u.ctx, io.LimitReader(content, u.room.bytes-u.taken+1), math.MaxInt64})
	if err == nil {
		err = u.take(n)
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	return errors.Join(err, f.Close())
}

func (u *unpacking) link(name, to string) error {
	if err := u.makeWay(name); err != nil {
		return err
	}
	return u.root.Symlink(to, name)
}

// makeWay makes way for a file or link.
func (u *unpacking) makeWay(name string) error {
	if err := u.parents(path.Dir(name)); err != nil {
		return err
	}
	info, err := u.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return refuse("%.100q is a directory and a file in it", name)
	}
	return u.root.Remove(name)
}

// entryBytes is what a file takes of a disk besides its content.
const entryBytes = 4 << 10

// count counts what is made, also of directories that are only in others' names.
func (u *unpacking) count() error {
	if u.entries++; u.entries > u.room.entries {
		return refuse("it has more than %d files", u.room.entries)
	}
	return u.take(entryBytes)
}

// take takes so many bytes of the room.
func (u *unpacking) take(n int64) error {
	if u.taken += n; u.taken > u.room.bytes {
		return refuse("it has more than %d MiB, with %d KiB for each file: that is half of what is left here, and more than the size of its group's ephemeral_disk", u.room.bytes>>20, entryBytes>>10)
	}
	return nil
}

// maxKnown bounds the memory of which directories are there.
const maxKnown = 10_000

// parents makes directories. None of them may be a link: what is written has to be where its
// name says.
func (u *unpacking) parents(dir string) error {
	if dir == "." || u.known[dir] {
		return nil
	}
	if err := u.parents(path.Dir(dir)); err != nil {
		return err
	}
	info, err := u.root.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := u.count(); err != nil {
			return err
		}
		if err := u.root.Mkdir(dir, 0o755); err != nil {
			return err
		}
	case err != nil:
		return err
	case !info.IsDir():
		return refuse("%.100q in it is a link or a file, and a directory", dir)
	}
	if len(u.known) >= maxKnown {
		clear(u.known)
	}
	u.known[dir] = true
	return nil
}

// removeAll removes a directory that an archive may have taken the permissions of.
func removeAll(dir string) error { return (&Dir{root: dir}).Destroy() }
