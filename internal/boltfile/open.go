package boltfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/internal/failpoint"
	"github.com/wasmnode/wasmnode/internal/wake"
)

// DefaultLockWait is how long [Open] waits for another process to let go of the
// file: longer than an agent takes to end, shorter than an operator waits.
const DefaultLockWait = 5 * time.Second

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
	// ErrClosed means that the file was closed.
	ErrClosed = errors.New("closed")
)

// Options configures how a file is opened.
type Options struct {
	// Kind names the owner of the file, such as "node state"; a file of another kind is
	// refused. Required.
	Kind string
	// Schema is the layout's version, at least 1. An older file is opened as it
	// is, a newer one refused.
	Schema int
	// LockWait bounds the wait for the file's lock. 0: DefaultLockWait.
	LockWait time.Duration
	// SetAside renames a damaged file and starts with an empty one, with an error
	// in the log; otherwise a damaged file is ErrCorrupt.
	SetAside bool
	// Logger may be nil.
	Logger hclog.Logger
}

// header is the description of the file in the meta bucket.
type header struct {
	Kind   string
	Schema int
}

var (
	metaBucket = []byte("meta")
	headerKey  = []byte("header")
)

// Open opens or creates the file with mode 0600. It reads every page once, so that
// damage shows here and not in the middle of something. The error wraps ErrLocked,
// ErrCorrupt or ErrNewer where one fits, and names the file and what to do.
func Open(path string, opts Options) (*File, error) {
	if opts.Kind == "" || opts.Schema < 1 {
		return nil, fmt.Errorf("%s: a kind and a schema version are required", path)
	}
	if opts.LockWait == 0 {
		opts.LockWait = DefaultLockWait
	}
	if opts.Logger == nil {
		opts.Logger = hclog.NewNullLogger()
	}
	db, err := openChecked(path, opts)
	if errors.Is(err, ErrCorrupt) && opts.SetAside {
		db, err = replace(path, opts, err)
	}
	if err != nil {
		return nil, err
	}
	f := &File{
		path:   path,
		db:     db,
		strict: os.Getenv(StrictEnv) == "1",
		wake:   wake.New(),
		ended:  make(chan struct{}),
	}
	go f.writeLoop()
	return f, nil
}

// replace moves a damaged file away and opens an empty one in its place.
func replace(path string, opts Options, cause error) (*bbolt.DB, error) {
	aside := path + ".damaged-" + time.Now().UTC().Format("20060102T150405.000000000Z")
	failpoint.Here(path, "aside")
	if err := os.Rename(path, aside); err != nil {
		return nil, fmt.Errorf("%w; setting it aside: %w", cause, err)
	}
	failpoint.Here(path, "set-aside")
	opts.Logger.Error("a damaged file was set aside; starting with an empty one",
		"file", path, "kept_as", aside, "error", cause)
	return openChecked(path, opts)
}

// openChecked opens the file and checks its pages and header. bbolt reads through a
// memory map, so that damage can show as a panic or, past a truncated end, as a
// fault; both become ErrCorrupt here. The handle is ours, because bbolt loses its
// own, and the lock with it, when it panics.
func openChecked(path string, opts Options) (db *bbolt.DB, err error) {
	var handle *os.File
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = corrupt(path, opts, fmt.Errorf("%v", p))
		}
		if err != nil && handle != nil {
			// Closing alone would not unlock it: the lost memory map keeps the
			// file, and so its lock, for as long as the process runs.
			err = errors.Join(err, unlock(handle))
			handle.Close()
		}
	}()
	_, statErr := os.Stat(path)
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:      opts.LockWait,
		FreelistType: bbolt.FreelistMapType,
		OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
			handle, err = os.OpenFile(name, flag, mode)
			return handle, err
		},
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%s %s: %w: waited %s for its lock; stop the other agent, or give this one its own data directory",
			opts.Kind, path, ErrLocked, opts.LockWait)
	case damaged(err), err != nil && cut(path):
		return nil, corrupt(path, opts, err)
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", opts.Kind, path, err)
	}
	failpoint.Here(path, "open")
	if errors.Is(statErr, os.ErrNotExist) {
		if err := syncDirectory(filepath.Dir(path)); err != nil {
			return nil, errors.Join(fmt.Errorf("%s %s: %w", opts.Kind, path, err), db.Close())
		}
	}
	if err := check(db, path); err != nil {
		return nil, errors.Join(corrupt(path, opts, err), db.Close())
	}
	if err := readHeader(db, path, opts); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func corrupt(path string, opts Options, cause error) error {
	return fmt.Errorf("%s %s: %w: %w; move it away to start with an empty one", opts.Kind, path, ErrCorrupt, cause)
}

func unlock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_UN)
	if errors.Is(err, unix.EBADF) { // bbolt closed it
		return nil
	}
	return err
}

// damaged reports whether bbolt's error means that the file is not, or no longer, a
// database.
func damaged(err error) bool {
	for _, e := range []error{bolterrors.ErrInvalid, bolterrors.ErrInvalidMapping, bolterrors.ErrVersionMismatch, bolterrors.ErrChecksum} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// cut reports whether a file ends before the two pages that every database begins with.
// One that is empty has not begun.
func cut(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() > 0 && info.Size() < int64(2*os.Getpagesize())
}

// check reads every page. The length comes first: bbolt's own check would fault on a
// page past the file's end, on a goroutine where that ends the process.
func check(db *bbolt.DB, path string) error {
	return db.View(func(tx *bbolt.Tx) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.Size() < tx.Size() {
			return fmt.Errorf("truncated: %d of %d bytes", info.Size(), tx.Size())
		}
		var first error
		for err := range tx.Check() {
			if first == nil {
				first = err
			}
		}
		return first
	})
}

// readHeader writes the header of a new file and checks the one of an old file.
func readHeader(db *bbolt.DB, path string, opts Options) error {
	return db.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if meta == nil {
			if first, _ := tx.Cursor().First(); first != nil {
				return corrupt(path, opts, errors.New("it holds something else"))
			}
			b, err := tx.CreateBucket(metaBucket)
			if err != nil {
				return err
			}
			value, err := json.Marshal(header{opts.Kind, opts.Schema})
			if err != nil {
				return err
			}
			return b.Put(headerKey, value)
		}
		var h header
		if err := json.Unmarshal(meta.Get(headerKey), &h); err != nil {
			return corrupt(path, opts, fmt.Errorf("header: %w", err))
		}
		if h.Kind != opts.Kind {
			return fmt.Errorf("%s %s: it is a file of another kind, %q", opts.Kind, path, h.Kind)
		}
		if h.Schema > opts.Schema {
			return fmt.Errorf("%s %s: %w: its schema version is %d, this program knows up to %d; run the version that wrote it, or move the file away",
				opts.Kind, path, ErrNewer, h.Schema, opts.Schema)
		}
		return nil
	})
}

// syncDirectory makes a new file's name durable.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
