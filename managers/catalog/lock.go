package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/internal/pluginlock"
)

// locked is what the directory's lock file says of its files. The zero value locks nothing.
type locked struct {
	lock *pluginlock.Lock // nil: none is there
	err  error            // the file cannot be read
}

// refusal returns why a content of a file must not be in service, as a [*notMeantError]; nil:
// it may.
func (l locked) refusal(required bool, file, digest string) error {
	switch {
	case l.err != nil:
		return &notMeantError{fmt.Sprintf("no plugin is taken while %s cannot be read: %s", pluginlock.FileName, OneLine(l.err))}
	case l.lock == nil && required:
		return &notMeantError{fmt.Sprintf("require_lock is set and the plugin directory has no %s: write it with wasmnode plugin lock", pluginlock.FileName)}
	}
	if err := l.lock.Refusal(file, digest); err != nil {
		return &notMeantError{err.Error()}
	}
	return nil
}

// lockWatch notices when a directory's lock file has changed.
type lockWatch struct {
	dir  string
	mark mark
	read bool
}

// look returns what the lock file says, and whether that may differ from what the last look
// returned.
func (w *lockWatch) look() (l locked, changed bool) {
	m, _ := readMark(filepath.Join(w.dir, pluginlock.FileName))
	if w.read && m == w.mark {
		return locked{}, false
	}
	l.lock, l.err = pluginlock.Read(w.dir)
	if errors.Is(l.err, fs.ErrNotExist) {
		l = locked{}
	}
	// What could not be read is read again, though it looks the same.
	w.mark, w.read = m, l.err == nil
	return l, true
}

// lookAtLock takes the lock file's content, if it has changed.
func (c *Catalog) lookAtLock(w *lockWatch) {
	l, changed := w.look()
	if changed {
		c.step(func(t *files, now time.Time) []action { return t.lock(now, l) })
	}
}

// lock puts another content of the lock file in force. What is in charge and is not locked any
// more stays until its file has been read: that may have the content in it that is. A lock
// file that cannot be read ends nothing.
func (t *files) lock(now time.Time, l locked) (actions []action) {
	before := t.locked
	t.locked = l
	switch {
	case l.err != nil:
		if before.err == nil || before.err.Error() != l.err.Error() {
			actions = append(actions, logLine{hclog.Error, "the plugin directory's lock file cannot be read, no plugin is taken", []any{"error", OneLine(l.err)}})
		}
		return actions
	case l.lock != nil:
		actions = append(actions, logLine{hclog.Info, "the plugin directory is locked", []any{"plugins", len(l.lock.Plugins)}})
	case before.lock != nil || before.err != nil:
		actions = append(actions, logLine{hclog.Warn, "the plugin directory is not locked any more", nil})
	}
	return append(actions, t.reviewLocked(now)...)
}

// reviewLocked has the files read that the lock may refuse now, or take.
func (t *files) reviewLocked(now time.Time) (actions []action) {
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		f := t.byName[name]
		if f.notMeant || t.isUnlocked(f) {
			actions = append(actions, t.begin(now, name))
		}
	}
	return actions
}

// isUnlocked reports whether the lock file does not let what is in charge of a file be so.
func (t *files) isUnlocked(f *file) bool {
	return f.unit != nil && t.unlocked(f.name, f.content.digest) != nil
}

// unlocked returns why the lock file does not let a content of a file be in service; nil: it
// does.
func (t *files) unlocked(file, digest string) error {
	return t.locked.refusal(t.settings.RequireLock, file, digest)
}

// retireUnlocked takes what is in charge of a file out of service if the lock does not let it
// be. A lock file that cannot be read ends nothing.
func (t *files) retireUnlocked(f *file) []action {
	if f.unit == nil || t.locked.err != nil {
		return nil
	}
	err := t.unlocked(f.name, f.content.digest)
	if err == nil {
		return nil
	}
	return []action{settle{f.unit, given{grants: t.settings.Others}}, t.retire(f, OneLine(err))} // it may run tasks
}

// checkLock reports whether a content that was read may be loaded: nothing of what is not
// locked is compiled or run.
func (c *Catalog) checkLock(file, digest string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files.unlocked(file, digest)
}
