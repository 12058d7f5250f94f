package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/internal/durable"
	"github.com/wasmnode/wasmnode/internal/pluginlock"
	"github.com/wasmnode/wasmnode/internal/pluginsign"
)

// placement is a change of a plugin directory that is made whole or not at all: everything is
// written before the first file has its name. Nobody else changes the directory meanwhile.
type placement struct {
	dir     string
	lock    *pluginlock.Lock // as it will be; nil: the directory has none
	staged  []*durable.File
	unsaid  []string // signatures' files of plugins that have none any more
	release func()
}

// openPlacement begins a change, and waits for another to end for at most some time. Whoever
// called it drops it in the end. What changes that were killed have left behind is removed,
// and named.
func (m meta) openPlacement(ctx context.Context, dir string, wait time.Duration) (_ *placement, err error) {
	p := &placement{dir: dir}
	if p.release, err = hold(ctx, dir, wait); err != nil {
		return nil, err
	}
	left, err := pluginlock.Sweep(dir)
	if len(left) > 0 {
		m.ui.Warn(fmt.Sprintf("removed what an installation that was killed has left in %s: %s", dir, strings.Join(left, ", ")))
	}
	if err == nil {
		p.lock, err = pluginlock.ReadIfAny(dir)
	}
	if err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

// hold keeps others from changing a plugin directory, after waiting for at most some time.
func hold(ctx context.Context, dir string, wait time.Duration) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return pluginlock.Hold(ctx, dir)
}

// mayReplace refuses to put a plugin in the place of another that is not known to be from the same
// repository: a plugin gives itself its name, and has the grants and tasks of that name.
func (p *placement) mayReplace(e pluginlock.Entry) error {
	if _, err := os.Lstat(filepath.Join(p.dir, e.File)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var there pluginlock.Entry
	if p.lock != nil {
		there, _ = p.lock.Entry(e.File)
	}
	repository, _, _ := strings.Cut(e.Source, "@")
	known, _, _ := strings.Cut(there.Source, "@")
	if known == repository && (known != "" || there.SHA256 == e.SHA256) {
		return nil
	}
	if repository == "" {
		return fmt.Errorf("%s is there, and where this one is from is not known: with -replace, it takes its place", e.File)
	}
	return fmt.Errorf("%s is there, and is not known to be from %s: with -replace, this one takes its place", e.File, repository)
}

// stage writes a plugin's file, and its signature's, if there is one.
func (p *placement) stage(e pluginlock.Entry, wasm, signature []byte) error {
	s, err := pluginlock.Stage(p.dir, e.File, wasm)
	if err != nil {
		return err
	}
	p.staged = append(p.staged, s)
	if signature == nil {
		p.unsaid = append(p.unsaid, filepath.Join(p.dir, e.File+pluginsign.Suffix))
	} else {
		s, err := pluginlock.Stage(p.dir, e.File+pluginsign.Suffix, signature)
		if err != nil {
			return err
		}
		p.staged = append(p.staged, s)
	}
	if p.lock != nil {
		p.lock = p.lock.With(e)
	}
	return nil
}

// commit gives the files their names, the lock last, unless ctx has ended.
func (p *placement) commit(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if p.lock != nil {
		s, err := p.lock.Stage(p.dir)
		if err != nil {
			return err
		}
		p.staged = append(p.staged, s)
	}
	for _, path := range p.unsaid {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, s := range p.staged {
		if err := s.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// drop ends the change. What was not committed is removed.
func (p *placement) drop() {
	for _, s := range p.staged {
		s.Drop()
	}
	p.release()
}
