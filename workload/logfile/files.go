package logfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// MaxNumber is the highest number that a log's file has; files with higher ones are
// not the log's. At one rotation a second it lasts for 31 years.
const MaxNumber = 999_999_999

var (
	errNotRegular = errors.New("not a regular file")
	errNoNumber   = fmt.Errorf("no file number is left above %d", MaxNumber)
)

// Path is the path of a log's file of that number.
func Path(base string, number int) string { return base + "." + strconv.Itoa(number) }

func fileName(base string, number int) string { return filepath.Base(Path(base, number)) }

// Numbers returns the numbers of a log's files, ascending. A directory that is not
// there has none.
func Numbers(base string) ([]int, error) {
	root, err := openDir(base)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	l, err := list(root, base)
	return l.regular, err
}

// openDir opens a log's directory. Its last element may be a link only to what is
// beside it: a task that can rename its log directory must not redirect the agent's
// writes.
func openDir(base string) (*os.Root, error) {
	dir := filepath.Dir(base)
	parent := filepath.Dir(dir)
	if parent == dir {
		return os.OpenRoot(dir)
	}
	above, err := os.OpenRoot(parent)
	if err != nil {
		return nil, err
	}
	defer above.Close()
	return above.OpenRoot(filepath.Base(dir))
}

// listing is what a directory has of a log.
type listing struct {
	regular []int // ascending
	highest int   // of any kind; -1: there is none
}

func (l listing) newest() int {
	if len(l.regular) == 0 {
		return -1
	}
	return l.regular[len(l.regular)-1]
}

func list(root *os.Root, base string) (listing, error) {
	l := listing{highest: -1}
	dir, err := root.Open(".")
	if err != nil {
		return l, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return l, err
	}
	prefix := filepath.Base(base) + "."
	for _, e := range entries {
		n, ok := numberOf(e.Name(), prefix)
		if !ok {
			continue
		}
		l.highest = max(l.highest, n)
		if e.Type().IsRegular() {
			l.regular = append(l.regular, n)
		}
	}
	slices.Sort(l.regular)
	return l, nil
}

// numberOf parses a file's name. Atoi takes signs and leading zeroes, a log's number
// has neither.
func numberOf(name, prefix string) (int, bool) {
	tail, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(tail)
	if err != nil || n < 0 || n > MaxNumber || strconv.Itoa(n) != tail {
		return 0, false
	}
	return n, true
}

// openRegular opens a log's file. Opening does not block: not on a FIFO either.
func openRegular(root *os.Root, base string, number, flag int, mode os.FileMode) (*os.File, error) {
	name := fileName(base, number)
	if info, err := root.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: Path(base, number), Err: errNotRegular}
	}
	f, err := root.OpenFile(name, flag|syscall.O_NONBLOCK, mode)
	if err != nil {
		return nil, err
	}
	// It can have become something else since.
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, &os.PathError{Op: "open", Path: Path(base, number), Err: errNotRegular}
	}
	return f, nil
}
