package state

import (
	"errors"
	"fmt"

	"github.com/hashicorp/go-hclog"
	"go.etcd.io/bbolt"

	"github.com/wasmnode/wasmnode/internal/boltfile"
)

// SchemaVersion is the version of the layout that this package writes.
const SchemaVersion = 1

// Options configures a store.
type Options struct {
	// SetAside renames a damaged file and goes on with its last good copy or, when there is
	// none, an empty file, which the log tells; otherwise Open refuses it.
	SetAside bool
	// Recovered, unless it is nil, is called by Open when it did so.
	Recovered func(boltfile.Recovery)
	// Key, of KeySize bytes, is what may be secret of tasks is sealed with; nil: it is stored in
	// the clear, and what was sealed is lost ([TaskLocal.Lost]).
	Key []byte
	// Logger may be nil.
	Logger hclog.Logger
}

// Open opens or creates the store in a bbolt file, mode 0600. It waits for the
// file's lock for boltfile.DefaultLockWait. Errors wrap boltfile.ErrLocked,
// boltfile.ErrCorrupt or boltfile.ErrNewer.
func Open(path string, opts Options) (DB, error) {
	f, err := boltfile.Open(path, boltfile.Options{
		Kind:      "node state",
		Schema:    SchemaVersion,
		SetAside:  opts.SetAside,
		Recovered: opts.Recovered,
		CopyEvery: boltfile.DefaultCopyEvery,
		Logger:    opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	r := &records{name: "bbolt " + path, medium: &bolt{f}}
	if opts.Key != nil {
		if r.seal, err = newSeal(opts.Key); err != nil {
			return nil, errors.Join(fmt.Errorf("node state %s: %w", path, err), f.Close())
		}
		if err := r.sealOlder(); err != nil && opts.Logger != nil {
			opts.Logger.Warn("what an older version has stored of tasks' environments stays in the clear: the next start tries again", "file", path, "error", err)
		}
	}
	return r, nil
}

// bolt is the medium in a file.
type bolt struct{ file *boltfile.File }

func (b *bolt) write(ops ...boltfile.Op) error { return b.file.Write(ops...) }

func (b *bolt) close() error { return b.file.Close() }

func (b *bolt) read(bucket []string, key string, found func([]byte) error) error {
	return b.file.View(func(tx *bbolt.Tx) error {
		at := boltfile.Bucket(tx, bucket...)
		if at == nil {
			return found(nil)
		}
		return found(at.Get([]byte(key)))
	})
}

func (b *bolt) buckets(bucket []string) (names []string, err error) {
	err = b.file.View(func(tx *bbolt.Tx) error {
		at := boltfile.Bucket(tx, bucket...)
		if at == nil {
			return nil
		}
		return at.ForEachBucket(func(name []byte) error {
			names = append(names, string(name))
			return nil
		})
	})
	return names, err
}
