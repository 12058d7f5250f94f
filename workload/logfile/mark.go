package logfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// mark is what is remembered with a place in a log. It lies beside the log, in a file of its
// own, and says where: so what is in the log since then is known, however the process ended
// that wrote it.
type mark struct {
	Owner  string `json:"owner"`
	Text   []byte `json:"text"`
	Number int    `json:"number"`
	Offset int64  `json:"offset"` // in the file of that number
	Before int64  `json:"before"` // bytes since the mark in files before that one
}

// MaxMarkBytes bounds a mark's owner and text together.
const MaxMarkBytes = 1 << 10

var errMarkTooLong = errors.New("the mark is too long")

// markBytes is the size of a mark's file. It is written as a whole, within a page: no end of
// the process leaves a part of it.
const markBytes = 4 << 10

// Mark remembers a text with what is in the log so far, in place of the one before.
func (w *Writer) Mark(owner string, text []byte) error {
	if len(owner)+len(text) > MaxMarkBytes {
		return errMarkTooLong
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return os.ErrClosed
	}
	if err := w.catchUp(); err != nil {
		return err
	}
	root, err := openDir(w.base)
	if err != nil {
		return err
	}
	defer root.Close()
	return writeMark(root, w.base, mark{Owner: owner, Text: text, Number: w.number, Offset: w.size})
}

// Marked returns what was last remembered, if that owner did, and how many bytes the log has
// got since. What cannot be read is not remembered.
func (w *Writer) Marked(owner string) (text []byte, since uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	root, err := openDir(w.base)
	if err != nil {
		return nil, 0
	}
	defer root.Close()
	m, ok := readMark(root, w.base)
	if !ok || m.Owner != owner {
		return nil, 0
	}
	l, err := list(root, w.base)
	if err != nil {
		return nil, 0
	}
	n := m.Before
	for _, number := range l.regular {
		info, err := root.Lstat(fileName(w.base, number))
		switch {
		case err != nil || number < m.Number:
		case number == m.Number:
			n += info.Size() - m.Offset
		default:
			n += info.Size()
		}
	}
	return m.Text, uint64(max(0, n))
}

// carryMark moves a mark from the file that is full to the next one. The lock is held.
func (w *Writer) carryMark(root *os.Root, next int) error {
	m, ok := readMark(root, w.base)
	if !ok || m.Number != w.number || next <= w.number {
		return nil
	}
	m.Before += max(0, w.size-m.Offset)
	m.Number, m.Offset = next, 0
	return writeMark(root, w.base, m)
}

// markName is of a mark's file, which is no log's.
func markName(base string) string { return "." + filepath.Base(base) + ".mark" }

func writeMark(root *os.Root, base string, m mark) error {
	encoded, err := json.Marshal(m)
	if err != nil {
		return err
	}
	f, err := openMark(root, base, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(append(encoded, strings.Repeat(" ", max(0, markBytes-len(encoded)))...), 0)
	return errors.Join(err, f.Close())
}

func readMark(root *os.Root, base string) (m mark, ok bool) {
	f, err := openMark(root, base, os.O_RDONLY)
	if err != nil {
		return m, false
	}
	defer f.Close()
	content := make([]byte, markBytes)
	n, _ := f.ReadAt(content, 0)
	err = json.Unmarshal(bytes.TrimSpace(content[:n]), &m)
	return m, err == nil && m.Number >= 0 && m.Offset >= 0 && m.Before >= 0
}

// openMark opens a mark's file. The task may have put anything in its place.
func openMark(root *os.Root, base string, flag int) (*os.File, error) {
	name := markName(base)
	if info, err := root.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: name, Err: errNotRegular}
	}
	f, err := root.OpenFile(name, flag|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, &os.PathError{Op: "open", Path: name, Err: errNotRegular}
	}
	return f, nil
}
