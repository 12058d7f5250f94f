package boltfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/internal/failpoint"
	"github.com/wasmnode/wasmnode/internal/wake"
)

// Op is one change. The buckets on the way are made as needed.
type Op struct {
	// Bucket is the path of buckets, outermost first; at least one.
	Bucket []string
	// Key names a value; empty: the operation deletes the whole bucket, and Value
	// must be nil.
	Key string
	// Value is stored under Key; nil deletes it. Deleting what is not there is not an
	// error.
	Value []byte
}

// File is an open file. All methods may be called concurrently.
type File struct {
	path   string
	opts   Options
	strict bool

	dbMu sync.RWMutex // guards db itself, which is another once a read-only file is written to
	db   *bbolt.DB

	mu      sync.Mutex
	pending []*write
	closed  bool
	wake    wake.Signal // there is something pending, or the file is closed

	stop     chan struct{}  // closed when the file is
	loops    sync.WaitGroup // of the goroutines that write and copy
	staging  sync.Mutex     // of Stage
	copying  sync.Mutex     // of the last good copy
	closing  sync.Once
	closeErr error

	lostPages bool // of the writer: it does not know all pages that are free

	commits uint64 // transactions that changed the file; for tests
}

// write is one caller's operations, all or none of which are done.
type write struct {
	ops  []Op
	done chan error // capacity 1: the writer never waits for the caller
}

// Path is the file's path.
func (f *File) Path() string { return f.path }

// Write does all operations or none, and returns when they are durable. Writers that
// come while a transaction is being synced share the next one; nothing waits for a
// clock. Values that are stored already are not written again: what counts is what
// was committed, so that a failed transaction is never mistaken for a written one.
// After Close the error wraps ErrClosed.
func (f *File) Write(ops ...Op) error {
	for _, op := range ops {
		if err := op.check(); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	w := &write{ops: ops, done: make(chan error, 1)}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return fmt.Errorf("%s: %w", f.path, ErrClosed)
	}
	f.pending = append(f.pending, w)
	f.wake.Set()
	f.mu.Unlock()
	return <-w.done
}

// check refuses what bbolt would refuse in the middle of a shared transaction.
func (op Op) check() error {
	if len(op.Bucket) == 0 {
		return errors.New("an operation needs a bucket")
	}
	for _, name := range append([]string{op.Key}, op.Bucket...) {
		if len(name) > bbolt.MaxKeySize {
			return fmt.Errorf("a key of %d bytes is longer than %d", len(name), bbolt.MaxKeySize)
		}
	}
	for _, name := range op.Bucket {
		if name == "" {
			return errors.New("a bucket needs a name")
		}
	}
	if op.Key == "" && op.Value != nil {
		return errors.New("a value needs a key")
	}
	if len(op.Value) > bbolt.MaxValueSize {
		return fmt.Errorf("a value of %d bytes is longer than %d", len(op.Value), bbolt.MaxValueSize)
	}
	return nil
}

// View reads within one consistent snapshot. What the function gets of the
// transaction is not valid after it returns.
func (f *File) View(read func(tx *bbolt.Tx) error) error {
	f.dbMu.RLock()
	defer f.dbMu.RUnlock()
	err := f.db.View(read)
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return fmt.Errorf("%s: %w", f.path, ErrClosed)
	}
	return err
}

// InUse is how many bytes of the file hold something, as of the last write. Bytes that do not
// are used again before the file grows.
func (f *File) InUse() (bytes int64) {
	f.dbMu.RLock()
	defer f.dbMu.RUnlock()
	return inUse(f.db)
}

// inUse is how many bytes of a database hold something, as of the last write; of a closed one: 0.
func inUse(db *bbolt.DB) (bytes int64) {
	_ = db.View(func(tx *bbolt.Tx) error {
		s := tx.DB().Stats()
		bytes = tx.Size() - int64(s.FreePageN+s.PendingPageN)*int64(tx.DB().Info().PageSize)
		return nil
	})
	return bytes
}

// Close ends when what was handed to Write before is durable or has failed, and the last
// good copy is up to date. It is idempotent.
func (f *File) Close() error {
	f.closing.Do(func() {
		f.mu.Lock()
		f.closed = true
		f.wake.Set()
		f.mu.Unlock()
		close(f.stop)
		f.loops.Wait()
		if err := f.listFreePages(); err != nil {
			f.opts.Logger.Warn("the free pages of a file could not be listed", "file", f.path, "error", err)
		}
		if f.opts.CopyEvery > 0 {
			f.keepCopy()
		}
		f.closeErr = f.db.Close()
	})
	return f.closeErr
}

// listFreePages stores which pages are free, which commits do not: the next Open need not find
// them, and finds one that is neither free nor in use.
func (f *File) listFreePages() error {
	if f.lostPages || f.db.IsReadOnly() {
		return nil
	}
	if m, err := describe(f.path); err != nil || m.freelist != noFreelist {
		return err
	}
	f.db.NoFreelistSync = false
	return f.update(func(*bbolt.Tx) error { return nil })
}

// writeLoop commits what is pending until the file is closed and nothing is.
func (f *File) writeLoop() {
	for closed := false; !closed; {
		<-f.wake.C()
		closed = f.writePending()
	}
}

// writePending commits what is pending and reports whether nothing comes after it.
func (f *File) writePending() (closed bool) {
	// Callers that are about to write join: it costs nothing when there are none, and on a busy
	// machine it halves the transactions.
	runtime.Gosched()
	f.mu.Lock()
	batch := f.pending
	f.pending, closed = nil, f.closed
	f.mu.Unlock()
	if len(batch) == 0 {
		return closed
	}
	err := f.commit(batch)
	if err != nil && len(batch) > 1 {
		// One writer's fault must not be another's.
		for _, w := range batch {
			w.done <- f.commit([]*write{w})
		}
		return closed
	}
	for _, w := range batch {
		w.done <- err
	}
	return closed
}

// errUnchanged ends a transaction that has nothing to write.
var errUnchanged = errors.New("unchanged")

// update does one transaction. A panic in it is its error: bbolt's own Update would look for
// the free pages then, and end the program where the file is damaged.
func (f *File) update(change func(*bbolt.Tx) error) (err error) {
	tx, err := f.db.Begin(true)
	if err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			f.lostPages = true
			err = fmt.Errorf("%s: %w: %v", f.path, ErrCorrupt, p)
		}
		_ = tx.Rollback() // of one that was committed: nothing
	}()
	if err := change(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// commit does the writes in one transaction.
func (f *File) commit(batch []*write) error {
	failpoint.Here(f.path, "commit")
	if err := f.writable(); err != nil {
		return err
	}
	err := f.update(func(tx *bbolt.Tx) error {
		changed := false
		for _, w := range batch {
			for _, op := range w.ops {
				did, err := op.apply(tx)
				if err != nil {
					return err
				}
				changed = changed || did
			}
		}
		if !changed {
			return errUnchanged
		}
		return nil
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	failpoint.Here(f.path, "committed")
	switch {
	case IsFull(err):
		return fmt.Errorf("%s: %w: make room, and try again: %w", f.path, ErrFull, err)
	case err != nil:
		return fmt.Errorf("%s: writing: %w", f.path, err)
	}
	f.mu.Lock()
	f.commits++
	f.mu.Unlock()
	if f.strict {
		if err := f.check(); err != nil {
			return fmt.Errorf("%s: %w after a write: %w", f.path, ErrCorrupt, err)
		}
	}
	return nil
}

// check looks at every page, as Open does and as bbolt does.
func (f *File) check() error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer file.Close()
	return errors.Join(Verify(file), check(f.db))
}

// writable opens a file again that could only be read, as soon as it can be written to.
func (f *File) writable() error {
	if !f.db.IsReadOnly() {
		return nil
	}
	if err := unix.Access(f.path, unix.W_OK); err != nil {
		return fmt.Errorf("%s: nothing can be written: %w", f.path, err)
	}
	f.dbMu.Lock()
	defer f.dbMu.Unlock()
	if err := f.db.Close(); err != nil {
		return err
	}
	db, err := openChecked(f.path, f.opts)
	if err == nil {
		f.db = db
	}
	return err
}

// Commits is how many transactions changed the file since it was opened.
func (f *File) Commits() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.commits
}

// bucketOwner is what a transaction and a bucket have in common.
type bucketOwner interface {
	Bucket(name []byte) *bbolt.Bucket
	CreateBucketIfNotExists(name []byte) (*bbolt.Bucket, error)
	DeleteBucket(name []byte) error
}

// apply does one operation and reports whether it changed anything.
func (op Op) apply(tx *bbolt.Tx) (changed bool, err error) {
	path := op.Bucket
	var owner bucketOwner = tx
	if op.Key == "" {
		path = path[:len(path)-1]
	}
	var b *bbolt.Bucket
	for _, name := range path {
		if b = owner.Bucket([]byte(name)); b == nil {
			if op.Value == nil {
				return false, nil
			}
			if b, err = owner.CreateBucketIfNotExists([]byte(name)); err != nil {
				return false, err
			}
		}
		owner = b
	}
	if op.Key == "" {
		last := []byte(op.Bucket[len(op.Bucket)-1])
		if owner.Bucket(last) == nil {
			return false, nil
		}
		return true, owner.DeleteBucket(last)
	}
	key := []byte(op.Key)
	old := b.Get(key)
	if op.Value == nil {
		if old == nil {
			return false, nil
		}
		return true, b.Delete(key)
	}
	if old != nil && bytes.Equal(old, op.Value) {
		return false, nil
	}
	return true, b.Put(key, op.Value)
}

// Bucket returns the bucket at a path, or nil.
func Bucket(tx *bbolt.Tx, path ...string) (b *bbolt.Bucket) {
	var owner bucketOwner = tx
	for _, name := range path {
		if b = owner.Bucket([]byte(name)); b == nil {
			return nil
		}
		owner = b
	}
	return b
}
