package boltfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/wasmnode/wasmnode/internal/durable"
	"github.com/wasmnode/wasmnode/internal/failpoint"
)

// Upgrade changes the layout of a file from one schema to the next. All of them and the new
// version are one transaction.
type Upgrade func(tx *bbolt.Tx) error

// header is the description of the file in the meta bucket.
type header struct {
	Kind   string
	Schema int
	// Sum tells damage from a file of another kind or a newer one. 0: an older program
	// wrote the header.
	Sum uint32 `json:",omitempty"`
}

func newHeader(kind string, schema int) header {
	return header{kind, schema, crc32.ChecksumIEEE(fmt.Appendf(nil, "%s %d", kind, schema))}
}

var (
	metaBucket = []byte("meta")
	headerKey  = []byte("header")
)

// bringUp begins a file that is empty, and upgrades an older one. Nothing is written to one
// that is as it has to be, so that a full disk does not keep it from being read.
func bringUp(db *bbolt.DB, path string, opts Options) error {
	h, err := readHeader(db, path, opts)
	if err == nil && h != nil {
		err = h.fits(path, opts)
	}
	switch {
	case err != nil:
		return err
	case h == nil:
		return begin(db, path, opts)
	case h.Schema < opts.Schema:
		return upgrade(db, path, opts, h.Schema)
	}
	return nil
}

// fits refuses what this program cannot read.
func (h *header) fits(path string, opts Options) error {
	switch {
	case h.Kind != opts.Kind:
		return fmt.Errorf("%s %s: it is a file of another kind, %q", opts.Kind, path, h.Kind)
	case h.Schema > opts.Schema:
		return fmt.Errorf("%s %s: %w: its schema version is %d, this program knows up to %d; run the version that wrote it, or move the file away",
			opts.Kind, path, ErrNewer, h.Schema, opts.Schema)
	}
	return nil
}

// readHeader returns nil for a file that is empty.
func readHeader(db *bbolt.DB, path string, opts Options) (*header, error) {
	var h *header
	err := db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(metaBucket)
		if b == nil {
			if first, _ := tx.Cursor().First(); first != nil {
				return corrupt(path, opts, errors.New("it holds something else"))
			}
			return nil
		}
		h = &header{}
		if err := json.Unmarshal(b.Get(headerKey), h); err != nil {
			return corrupt(path, opts, fmt.Errorf("header: %w", err))
		}
		if h.Sum != 0 && *h != newHeader(h.Kind, h.Schema) {
			return corrupt(path, opts, errors.New("header: its checksum is of another one"))
		}
		return nil
	})
	return h, err
}

func putHeader(tx *bbolt.Tx, opts Options) error {
	b, err := tx.CreateBucketIfNotExists(metaBucket)
	if err != nil {
		return err
	}
	value, err := json.Marshal(newHeader(opts.Kind, opts.Schema))
	if err != nil {
		return err
	}
	return b.Put(headerKey, value)
}

// begin writes the header of a new file.
func begin(db *bbolt.DB, path string, opts Options) error {
	err := db.Update(func(tx *bbolt.Tx) error { return putHeader(tx, opts) })
	if err == nil {
		err = durable.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", opts.Kind, path, err)
	}
	return nil
}

// upgrade brings an older file to today's schema, after a copy of it was kept.
func upgrade(db *bbolt.DB, path string, opts Options, from int) error {
	kept := fmt.Sprintf("%s.schema-%d", path, from)
	err := copyTo(db.View, kept)
	if err == nil {
		failpoint.Here(path, "upgrade")
		err = db.Update(func(tx *bbolt.Tx) error {
			for schema := from; schema < opts.Schema; schema++ {
				if step := opts.Upgrades[schema]; step != nil {
					if err := step(tx); err != nil {
						return fmt.Errorf("to %d: %w", schema+1, err)
					}
				}
			}
			return putHeader(tx, opts)
		})
		failpoint.Here(path, "upgraded")
	}
	if err != nil {
		return fmt.Errorf("%s %s: upgrading it from schema %d to %d: %w", opts.Kind, path, from, opts.Schema, err)
	}
	opts.Logger.Info("a file was upgraded", "file", path, "from_schema", from, "to_schema", opts.Schema, "kept_as", kept)
	return nil
}
