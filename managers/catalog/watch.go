package catalog

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/internal/pluginlock"
	"github.com/wasmnode/wasmnode/internal/pluginsign"
)

const (
	// pluginSuffix is how the names of plugin files end.
	pluginSuffix = pluginlock.PluginSuffix
	// maxPluginFiles bounds the plugin files in a directory; those beyond, by name, are not
	// loaded, and the directory's status reports that. The files that an operator means are
	// the last to be left out.
	maxPluginFiles = 256

	// rescanInterval is when the directory is read although there was no notification:
	// network file systems send no notifications, and queues overflow.
	rescanInterval = 5 * time.Second
	// pollFallback is so where there are no notifications at all.
	pollFallback = 500 * time.Millisecond
	// coalesceTime is how long notifications are gathered before one look.
	coalesceTime = 10 * time.Millisecond
)

// watcher looks at a directory whenever it may have changed. Notifications are
// only hints to look; what is true is what a look finds.
type watcher struct {
	dir       string
	logger    hclog.Logger
	debouncer debouncer
	every     time.Duration // without notifications; 0: with them
	trust     time.Duration // how long they are relied on
	// found takes what a look found: all files, those with new content, and those
	// that are gone.
	found func(all, ready, gone []string)
	// meant reports whether the operator decided about a file; nil: about none.
	meant func(name string) bool
	// before is called before each look; nil: nothing is.
	before func()
	// state takes the directory's problem, "" for none, after each look.
	state func(problem string)
}

func newWatcher(dir string, logger hclog.Logger) *watcher {
	w := &watcher{dir: dir, logger: logger, trust: rescanInterval}
	w.debouncer = debouncer{
		files: map[string]*observation{},
		whole: func(name string) bool { return wholeFile(filepath.Join(dir, name)) },
	}
	return w
}

// run looks until ctx is done.
func (w *watcher) run(ctx context.Context) {
	notifications := newNotifications(w.dir, w.every, w.trust, w.logger)
	defer notifications.close()
	for {
		// Listening begins before looking, so that nothing happens in between.
		interval := notifications.watch()
		if wait := w.look(); wait > 0 {
			interval = min(interval, wait)
		}
		timer := time.NewTimer(interval)
		select {
		case <-ctx.Done():
		case <-notifications.c:
			notifications.coalesce(ctx)
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// look looks once and returns when to look again.
func (w *watcher) look() time.Duration {
	if w.before != nil {
		w.before()
	}
	marks, problem := readMarks(w.dir, w.meant)
	if marks == nil {
		// What cannot be seen is not gone: plugins stay in service.
		w.state(problem)
		return pollFallback
	}
	ready, gone, again := w.debouncer.look(time.Now(), marks)
	slices.Sort(ready)
	slices.Sort(gone)
	w.found(slices.Sorted(maps.Keys(marks)), ready, gone)
	w.state(problem)
	return again
}

// readMarks returns the marks of all plugin files, nil when the directory cannot
// be read. The problem is one line for people.
func readMarks(dir string, meant func(name string) bool) (marks map[string]mark, problem string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Sprintf("cannot read the plugin directory: %v", err)
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !pluginlock.IsPluginFile(e.Name()) })
	if len(entries) > maxPluginFiles && meant != nil {
		first, rest := []os.DirEntry{}, []os.DirEntry{}
		for _, e := range entries {
			if meant(e.Name()) {
				first = append(first, e)
			} else {
				rest = append(rest, e)
			}
		}
		entries = append(first, rest...)
	}
	marks = map[string]mark{}
	left := 0
	for _, entry := range entries {
		if len(marks) == maxPluginFiles {
			left++
			continue
		}
		path := filepath.Join(dir, entry.Name())
		if m, ok := readMark(path); ok {
			if s, signed := readMark(path + pluginsign.Suffix); signed {
				m.signature.size, m.signature.changed, m.signature.inode = s.size, s.changed, s.inode
			}
			marks[entry.Name()] = m
		}
	}
	if left > 0 {
		problem = fmt.Sprintf("%d plugin files are not loaded: the limit is %d", left, maxPluginFiles)
	}
	return marks, problem
}

// readMark looks at one file, through symbolic links. A link that leads nowhere
// is a file too: the loader reports that. ok is false for one that is gone.
func readMark(path string) (m mark, ok bool) {
	info, err := os.Stat(path)
	if err != nil {
		if info, err = os.Lstat(path); err != nil {
			return mark{}, false
		}
	}
	m = mark{size: info.Size(), changed: info.ModTime(), mode: info.Mode()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		m.inode = stat.Ino
	}
	return m, true
}

// notifications tell that a directory may have changed.
type notifications struct {
	c       <-chan fsnotify.Event
	dir     string
	every   time.Duration // there are none on purpose; 0: there are
	trust   time.Duration
	logger  hclog.Logger
	watcher *fsnotify.Watcher
	warned  bool // there are none, and it was logged
	watched os.FileInfo
	stop    chan struct{}
	done    chan struct{}
}

func newNotifications(dir string, every, trust time.Duration, logger hclog.Logger) *notifications {
	h := &notifications{dir: dir, every: every, trust: trust, logger: logger, stop: make(chan struct{}), done: make(chan struct{})}
	if every > 0 {
		close(h.done)
		return h
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		h.warn(err)
		close(h.done)
		return h
	}
	h.watcher, h.c = watcher, watcher.Events
	go h.drainErrors()
	return h
}

// drainErrors reads the watcher's errors, which are nothing but a lost hint: the
// next look finds what they hid.
func (h *notifications) drainErrors() {
	defer close(h.done)
	for {
		select {
		case err, ok := <-h.watcher.Errors:
			if !ok {
				return
			}
			h.logger.Debug("a notification on the plugin directory was lost", "error", err)
		case <-h.stop:
			return
		}
	}
}

// watch asks for notifications where the directory is a new one, and returns how
// long to trust in them.
func (h *notifications) watch() time.Duration {
	switch {
	case h.every > 0:
		return h.every
	case h.watcher == nil:
		return pollFallback
	}
	info, err := os.Stat(h.dir)
	if err != nil {
		h.watched = nil
		return pollFallback
	}
	if h.watched != nil && os.SameFile(h.watched, info) {
		return h.trust
	}
	_ = h.watcher.Remove(h.dir) // of a directory that was here before
	if err := h.watcher.Add(h.dir); err != nil {
		h.warn(err)
		return pollFallback
	}
	h.watched, h.warned = info, false
	return h.trust
}

func (h *notifications) warn(err error) {
	if !h.warned {
		h.logger.Warn("no notifications for the plugin directory, looking twice a second", "error", err)
	}
	h.warned = true
}

// coalesce reads the notifications that come close together, so that they cost one look.
func (h *notifications) coalesce(ctx context.Context) {
	timer := time.NewTimer(coalesceTime)
	defer timer.Stop()
	for {
		select {
		case <-h.c:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (h *notifications) close() {
	close(h.stop)
	if h.watcher != nil {
		_ = h.watcher.Close()
	}
	<-h.done
}
