package main

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settleTime is how long nothing may change before what changed is looked at: an editor writes a
// file in several steps, and a branch has many files.
const settleTime = 100 * time.Millisecond

// watchFolder tells of changes of a folder's files, those below it included, and of a job file
// that may be elsewhere, until ctx is done. What a build makes there is none. Changes that
// nobody has taken yet are one.
func watchFolder(ctx context.Context, dir, job string) (<-chan struct{}, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err = addFolders(watcher, dir); err == nil && job != "" {
		err = add(watcher, filepath.Dir(job))
	}
	if err != nil {
		_ = watcher.Close()
		return nil, err
	}
	changes := make(chan struct{}, 1)
	go tellChanges(ctx, watcher, changes)
	return changes, nil
}

// addFolders watches a folder, and those below it that have sources.
func addFolders(watcher *fsnotify.Watcher, dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case path != dir && !isSource(path):
			return filepath.SkipDir
		}
		return add(watcher, path)
	})
}

func add(watcher *fsnotify.Watcher, dir string) error {
	if err := watcher.Add(dir); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// isSource reports whether a file or folder is neither what a build makes or installs nor an editor's own.
func isSource(path string) bool {
	name := filepath.Base(path)
	return name != "build" && name != "node_modules" && name != "plugins" && !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, "~")
}

// tellChanges gathers notifications, and tells of them when they have settled.
func tellChanges(ctx context.Context, watcher *fsnotify.Watcher, changes chan<- struct{}) {
	defer func() { _ = watcher.Close() }() // it watches nothing any more
	settled := time.NewTimer(time.Hour)
	settled.Stop()
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-watcher.Events:
			if e.Op == fsnotify.Chmod || !isSource(e.Name) {
				continue
			}
			if e.Has(fsnotify.Create) {
				_ = addFolders(watcher, e.Name) // a folder that is new; one that is gone again has no sources
			}
			settled.Reset(settleTime)
		case <-watcher.Errors: //nolint:errcheck // notifications were lost, whatever it says
			settled.Reset(settleTime)
		case <-settled.C:
			select {
			case changes <- struct{}{}:
			default:
			}
		}
	}
}
