package boltfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/internal/durable"
	"github.com/wasmnode/wasmnode/internal/failpoint"
)

// Recovery is what [Open] did about a file that could not be used.
type Recovery struct {
	// Path is the file.
	Path string
	// Cause is what was wrong with it.
	Cause error
	// KeptAs is the damaged file's new name; empty: nothing was in it.
	KeptAs string
	// Copied is when the copy was made that is used now; zero: there was no good one, and
	// the file is empty.
	Copied time.Time
}

// String is a sentence for the operator.
func (r Recovery) String() string {
	what := "a damaged file was set aside"
	if r.KeptAs == "" {
		what = "a file was lost"
	}
	if r.Copied.IsZero() {
		return what + "; starting with an empty one"
	}
	return what + "; going on with its last good copy"
}

// timeInName is the form of a time at a file name's end.
const timeInName = "20060102T150405.000000000Z"

// replace keeps a damaged file under another name and puts its last good copy in its place,
// or an empty file: there is always a file of that name, and it is locked until it is no
// more, so that no other process begins one meanwhile.
func replace(path string, opts Options, cause error) error {
	// Once more: bbolt lets go of the lock of what it does not open.
	handle, err := lock(path, opts)
	if err != nil {
		return err
	}
	defer handle.Close()
	r := Recovery{Path: path, Cause: cause}
	if info, err := handle.Stat(); err != nil || info.Size() > 0 {
		if r.KeptAs, err = setAside(path, opts.Logger); err != nil {
			return fmt.Errorf("%w; setting it aside: %w", cause, err)
		}
	}
	if r.Copied, err = restoreCopy(path, opts.Logger); err != nil {
		return fmt.Errorf("%w; going on with its last good copy: %w", cause, err)
	}
	if r.Copied.IsZero() {
		if err := durable.Replace(path, nil, 0o600); err != nil {
			return fmt.Errorf("%w; starting with an empty one: %w", cause, err)
		}
	}
	if r.Copied.IsZero() {
		opts.Logger.Error(r.String(), "file", path, "kept_as", r.KeptAs, "error", cause)
	} else {
		opts.Logger.Error(r.String(), "file", path, "kept_as", r.KeptAs, "copied", r.Copied.UTC().Format(time.RFC3339), "error", cause)
	}
	if opts.Recovered != nil {
		opts.Recovered(r)
	}
	return nil
}

// keptFiles is how many files of a kind that were set aside are kept, the newest: enough to
// find out what happened, and no more than that many times the file's size.
const keptFiles = 3

// The kinds of files that are set aside: the damaged, and those that a snapshot replaced.
const (
	damagedFile  = ".damaged-"
	replacedFile = ".replaced-"
)

// prune removes all but the newest files of a kind that were set aside.
func prune(path, kind string, logger hclog.Logger) {
	aside, err := filepath.Glob(escapeGlob(path+kind) + "*")
	if err != nil {
		logger.Warn("looking for files that were set aside failed", "file", path, "error", err)
	}
	slices.Sort(aside) // by the time in their names
	for _, old := range aside[:max(0, len(aside)-keptFiles)] {
		if err := os.Remove(old); err != nil {
			logger.Warn("an old file that was set aside cannot be removed", "file", old, "error", err)
			continue
		}
		logger.Warn("an old file that was set aside is removed: the newest are kept", "file", old, "kept", keptFiles)
	}
}

// escapeGlob has a path mean itself in a pattern.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// setAside gives a damaged file a second name, which it returns. The first one is the next
// file's.
func setAside(path string, logger hclog.Logger) (string, error) {
	defer prune(path, damagedFile, logger)
	aside := path + damagedFile + time.Now().UTC().Format(timeInName)
	failpoint.Here(path, "aside")
	if err := os.Link(path, aside); err != nil {
		return "", err
	}
	failpoint.Here(path, "set-aside")
	return aside, nil
}

// restoreCopy puts the last good copy in a file's place and returns when it was made; zero:
// there is none, or it is damaged as well and was set aside.
func restoreCopy(path string, logger hclog.Logger) (made time.Time, err error) {
	kept := CopyPath(path)
	file, err := os.Open(kept)
	if errors.Is(err, os.ErrNotExist) {
		return made, nil
	}
	if err != nil {
		return made, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return made, err
	}
	if err := Verify(file); err != nil {
		if _, err = setAside(kept, logger); err == nil {
			err = os.Remove(kept)
		}
		return made, err
	}
	err = writeWhole(path, func(out io.Writer) error {
		_, err := io.Copy(out, io.NewSectionReader(file, 0, info.Size()))
		return err
	})
	if IsFull(err) { // then the copy itself goes on as the file
		if err = os.Rename(kept, path); err == nil {
			err = durable.SyncDir(filepath.Dir(path))
		}
	}
	return info.ModTime(), err
}
