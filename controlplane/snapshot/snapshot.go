// Package snapshot is the file format in which the state of a control plane is saved: a
// gzipped tar archive of what it is ("meta.json"), the state ("state.bin") and the SHA-256
// sums of both ("SHA256SUMS"), which are the parts that a snapshot of Nomad's servers has.
// It knows nothing of what the state is.
package snapshot

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"
)

// maxSize bounds the state, unpacked: 1 GiB, a hundred times what a busy node has.
const maxSize = 1 << 30

// maxText bounds the other parts.
const maxText = 64 << 10

// The parts, in their order.
const (
	metaName  = "meta.json"
	stateName = "state.bin"
	sumsName  = "SHA256SUMS"
)

// Meta says what a snapshot is of.
type Meta struct {
	// Version is that of the format: 1.
	Version int
	// ID tells snapshots apart.
	ID string
	// Index is the control plane's at the time.
	Index uint64
	// Term is 0: there are no elections.
	Term uint64
	// Size is that of the state, in bytes.
	Size int64
	// Created is when it was saved.
	Created time.Time
	// Schema is the version of the state's layout.
	Schema int
	// Jobs, Allocations, Evaluations and Nodes are how many there are.
	Jobs, Allocations, Evaluations, Nodes int
}

// formatVersion is the one that this package reads and writes.
const formatVersion = 1

// Write writes a snapshot. The state is of m.Size bytes.
func Write(w io.Writer, m Meta, state func(io.Writer) error) error {
	m.Version = formatVersion
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	packed := gzip.NewWriter(w)
	archive := tar.NewWriter(packed)
	var sums bytes.Buffer
	part := func(name string, size int64, write func(io.Writer) error) error {
		header := &tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: m.Created.Truncate(time.Second)}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		sum := sha256.New()
		if err := write(io.MultiWriter(archive, sum)); err != nil {
			return err
		}
		sums.WriteString(sumLine(sum, name))
		return nil
	}
	if err := part(metaName, int64(len(text)), func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
		return err
	}
	if err := part(stateName, m.Size, state); err != nil {
		return err
	}
	list := bytes.Clone(sums.Bytes())
	if err := part(sumsName, int64(len(list)), func(w io.Writer) error { _, err := w.Write(list); return err }); err != nil {
		return err
	}
	return errors.Join(archive.Close(), packed.Close())
}

// sumLine is one of those that sha256sum prints.
func sumLine(sum hash.Hash, name string) string {
	return hex.EncodeToString(sum.Sum(nil)) + "  " + name + "\n"
}

// Read reads a whole snapshot, with the state going to out, and compares its sums. What was
// written to out is worth nothing unless the error is nil.
func Read(r io.Reader, out io.Writer) (*Meta, error) {
	m, err := read(r, out)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return m, nil
}

func read(r io.Reader, out io.Writer) (*Meta, error) {
	packed, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("it is not one: %w", err)
	}
	archive := tar.NewReader(packed)
	var text, list bytes.Buffer
	sums := ""
	part := func(name string, limit int64, to io.Writer) error {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%s is missing", name)
		case err != nil:
			return err
		case header.Name != name || header.Typeflag != tar.TypeReg:
			return fmt.Errorf("%q is where %s has to be", header.Name, name)
		case header.Size > limit:
			return fmt.Errorf("%s is of %d bytes, at most %d are allowed", name, header.Size, limit)
		}
		sum := sha256.New()
		if _, err := io.Copy(io.MultiWriter(to, sum), archive); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		sums += sumLine(sum, name)
		return nil
	}
	if err := part(metaName, maxText, &text); err != nil {
		return nil, err
	}
	m := &Meta{}
	if err := json.Unmarshal(text.Bytes(), m); err != nil {
		return nil, fmt.Errorf("%s: %w", metaName, err)
	}
	if m.Version != formatVersion {
		return nil, fmt.Errorf("%s: it is of version %d, this program knows %d", metaName, m.Version, formatVersion)
	}
	if err := part(stateName, maxSize, out); err != nil {
		return nil, err
	}
	expected := sums
	if err := part(sumsName, maxText, &list); err != nil {
		return nil, err
	}
	if list.String() != expected {
		return nil, errors.New("its SHA-256 sums are not those of its parts: it was changed, or damaged")
	}
	if _, err := archive.Next(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something comes after its parts")
	}
	_, err = io.Copy(io.Discard, io.LimitReader(packed, maxText)) // to the checksum of the packing
	return m, err
}
