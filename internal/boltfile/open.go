package boltfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/internal/failpoint"
	"github.com/wasmnode/wasmnode/internal/wake"
)

// defaultLockWait is how long [Open] waits for another process to let go of the
// file: longer than an agent takes to end, shorter than an operator waits.
const defaultLockWait = 5 * time.Second

// StrictEnv names the environment variable that, set to 1, has every write followed
// by a check of the whole file. It is meant for tests: a check reads every page.
const StrictEnv = "WASMNODE_STRICT"

// The errors of [Open] and [File.Write] that a caller may decide on.
var (
	// ErrLocked means that another process has the file open.
	ErrLocked = errors.New("another agent is using it")
	// ErrCorrupt means that the file's content cannot be trusted.
	ErrCorrupt = errors.New("damaged")
	// ErrNewer means that a newer version of the program wrote the file.
	ErrNewer = errors.New("written by a newer version")
	// ErrFull means that there is no room for a change, on the disk or within a quota. What
	// was stored stays, and a later write may go through.
	ErrFull = errors.New("the disk is full")
	// ErrClosed means that the file was closed.
	ErrClosed = errors.New("closed")
)

// Options configures how a file is opened.
type Options struct {
	// Kind names the owner of the file, such as "node state"; a file of another kind is
	// refused. Required.
	Kind string
	// Schema is the layout's version, at least 1. A newer file is refused.
	Schema int
	// Upgrades has, by the schema that it starts from, what changes a file's layout to the
	// next schema's; none: only the version is raised.
	Upgrades map[int]Upgrade
	// LockWait bounds the wait for the file's lock. 0: defaultLockWait.
	LockWait time.Duration
	// SetAside renames a damaged file; the last good copy takes its place or, when there is
	// none, an empty file. Otherwise a damaged file is ErrCorrupt.
	SetAside bool
	// Recovered, unless it is nil, is called by Open when it did so.
	Recovered func(Recovery)
	// Restored, unless it is nil, is called by Open when a staged file took the file's place.
	Restored func()
	// CopyEvery is how often the last good copy is brought up to date, which is also done
	// at the end; see [CopyPath]. 0: there is none.
	CopyEvery time.Duration
	// Logger may be nil.
	Logger hclog.Logger
}

// Open opens or creates the file with mode 0600, or the one that was staged for it, see
// [File.Stage]. It looks at every page once, so that
// damage shows here and not in the middle of something. An older file is upgraded, and a
// copy of it kept. One of 8 MiB or more three quarters of which hold nothing is made smaller, where the
// disk has room for that. The error wraps ErrLocked, ErrCorrupt or ErrNewer where one fits, and
// names the file and what to do. A file on a file system that is read-only can be read, and
// written to as soon as the file system can.
func Open(path string, opts Options) (*File, error) {
	if opts.Kind == "" || opts.Schema < 1 {
		return nil, fmt.Errorf("%s: a kind and a schema version are required", path)
	}
	if opts.LockWait == 0 {
		opts.LockWait = defaultLockWait
	}
	if opts.Logger == nil {
		opts.Logger = hclog.NewNullLogger()
	}
	if err := takeStaged(path, opts); err != nil {
		return nil, err
	}
	db, err := openChecked(path, opts)
	if errors.Is(err, ErrCorrupt) && opts.SetAside {
		if err := replace(path, opts, err); err != nil {
			return nil, err
		}
		db, err = openChecked(path, opts)
	}
	if err == nil && isWasteful(db) {
		db, err = openCompacted(db, path, opts)
	}
	if err != nil {
		return nil, err
	}
	f := &File{
		path:   path,
		db:     db,
		opts:   opts,
		strict: os.Getenv(StrictEnv) == "1",
		wake:   wake.New(),
		stop:   make(chan struct{}),
	}
	f.loops.Go(f.writeLoop)
	if opts.CopyEvery > 0 {
		f.loops.Go(func() { f.copyLoop(opts.CopyEvery) })
	}
	return f, nil
}

// openChecked opens a file that was found to be good, and brings it to the schema.
func openChecked(path string, opts Options) (*bbolt.DB, error) {
	handle, err := lock(path, opts)
	if err != nil {
		return nil, err
	}
	if err := inspect(handle, path, opts); err != nil {
		handle.Close()
		return nil, err
	}
	db, err := openBolt(handle, opts)
	if err != nil {
		return nil, err
	}
	failpoint.Here(path, "open")
	if err := bringUp(db, path, opts); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// openCompacted opens the file that an open one becomes without its free pages, or goes on with that
// one.
func openCompacted(db *bbolt.DB, path string, opts Options) (*bbolt.DB, error) {
	replaced, err := compact(db, opts)
	if !replaced {
		opts.Logger.Warn("a file that is mostly empty stays as large as it is", "file", path, "error", err)
		return db, nil
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, fmt.Errorf("%s %s: %w", opts.Kind, path, err)
	}
	return openChecked(path, opts)
}

// lockTick is how often a lock that another process has is tried.
const lockTick = 50 * time.Millisecond

// lock opens or creates the file, and locks it. The lock is the inode's: what was renamed
// while this waited is let go.
func lock(path string, opts Options) (*os.File, error) {
	for deadline := time.Now().Add(opts.LockWait); ; {
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s %s: it is not a file: move it away", opts.Kind, path)
		}
		handle, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if errors.Is(err, unix.EROFS) {
			if readable, e := os.Open(path); e == nil {
				handle, err = readable, nil // until it can be written to
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", opts.Kind, err)
		}
		err = unix.Flock(int(handle.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && isAt(handle, path) {
			return handle, nil
		}
		handle.Close()
		switch {
		case err != nil && !errors.Is(err, unix.EWOULDBLOCK):
			return nil, fmt.Errorf("%s %s: locking it: %w", opts.Kind, path, err)
		case time.Now().After(deadline):
			return nil, fmt.Errorf("%s %s: %w: waited %s for its lock; stop the other agent, or give this one its own data directory",
				opts.Kind, path, ErrLocked, opts.LockWait)
		}
		time.Sleep(lockTick)
	}
}

// Lock takes the lock of a file of a kind without reading it, for who cannot ([ErrNewer]). Closing
// what it returns lets go of it.
//
// # Errors
//
// [ErrLocked]
func Lock(path, kind string) (io.Closer, error) {
	return lock(path, Options{Kind: kind, LockWait: defaultLockWait})
}

// isAt reports whether an open file still has that name.
func isAt(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(opened, named)
}

// inspect looks for damage before bbolt maps the file. One that is empty has not begun,
// unless there is a copy of what it was.
func inspect(handle *os.File, path string, opts Options) error {
	info, err := handle.Stat()
	if err != nil {
		return fmt.Errorf("%s %s: %w", opts.Kind, path, err)
	}
	if info.Size() == 0 {
		if _, err := os.Stat(CopyPath(path)); err == nil {
			return corrupt(path, opts, errLost)
		}
		return nil
	}
	if err = Verify(handle); err != nil {
		return corrupt(path, opts, err)
	}
	return nil
}

// Verify looks at every page of an open database, in bounded time and memory. Nobody may
// write it meanwhile.
func Verify(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return verify(file, info.Size())
}

// errLost is how a file is damaged that is empty or is not there, though a copy of it is.
var errLost = errors.New("nothing is in it")

// openBolt has bbolt open the file that is locked already. Its panics would be those of a
// database that cannot be trusted.
func openBolt(handle *os.File, opts Options) (db *bbolt.DB, err error) {
	path := handle.Name()
	defer func() {
		if p := recover(); p != nil {
			// The memory map that bbolt lost keeps the file open, and so its lock.
			_ = unix.Flock(int(handle.Fd()), unix.LOCK_UN)
			handle.Close()
			err = corrupt(path, opts, fmt.Errorf("%v", p))
		}
	}()
	flags, err := unix.FcntlInt(handle.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", opts.Kind, path, err)
	}
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		FreelistType: bbolt.FreelistMapType,
		// To write which pages are free at each commit takes the longer the more there are. To
		// find them once takes about as long as to verify the file. See File.listFreePages.
		NoFreelistSync: true,
		ReadOnly:       flags&unix.O_ACCMODE == unix.O_RDONLY,
		OpenFile:       func(string, int, os.FileMode) (*os.File, error) { return handle, nil },
	})
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", opts.Kind, path, err)
	}
	return db, nil
}

func corrupt(path string, opts Options, cause error) error {
	return fmt.Errorf("%s %s: %w: %w; move it away to start with an empty one", opts.Kind, path, ErrCorrupt, cause)
}

// check has bbolt itself read every page, of a file that is not damaged.
func check(db *bbolt.DB) error {
	return db.View(func(tx *bbolt.Tx) error {
		var first error
		for err := range tx.Check() {
			if first == nil {
				first = err
			}
		}
		return first
	})
}

// IsFull reports whether there is no room, on the disk or within a quota.
func IsFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
