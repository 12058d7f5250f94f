package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wasmnode/wasmnode/internal/pluginlock"
)

// placement is a change of a plugin directory that is made whole or not at all: everything is
// written before the first file has its name. Nobody else changes the directory meanwhile.
type placement struct {
	dir     string
	lock    *pluginlock.Lock // as it will be; nil: the directory has none
	staged  []*pluginlock.Staged
	release func()
}

// openPlacement begins a change. Whoever called it drops it in the end.
func openPlacement(dir string) (_ *placement, err error) {
	p := &placement{dir: dir}
	if p.release, err = pluginlock.Hold(dir); err != nil {
		return nil, err
	}
	if p.lock, err = pluginlock.ReadIfAny(dir); err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

// mayReplace refuses to put a plugin in the place of one that is not known to be from the same
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
	if known, _, _ := strings.Cut(there.Source, "@"); known == repository {
		return nil
	}
	return fmt.Errorf("%s is there, and is not known to be from %s: with -replace, this one takes its place", e.File, repository)
}

// stage writes a plugin's file.
func (p *placement) stage(e pluginlock.Entry, wasm []byte) error {
	s, err := pluginlock.Stage(p.dir, e.File, wasm)
	if err != nil {
		return err
	}
	p.staged = append(p.staged, s)
	if p.lock != nil {
		p.lock = p.lock.With(e)
	}
	return nil
}

// commit gives the files their names, the lock last.
func (p *placement) commit() error {
	if p.lock != nil {
		s, err := p.lock.Stage(p.dir)
		if err != nil {
			return err
		}
		p.staged = append(p.staged, s)
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
