package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/sandbox/meter"
)

// template is what a module keeps for snapshots of its instances.
type template struct {
	start   *image // what an instance's memory begins with
	globals []string
}

func newTemplate(t *meter.Template) *template {
	if t == nil {
		return nil
	}
	return &template{start: newImage(t.Image), globals: t.Globals}
}

// Snapshot is an instance as it was after its start functions: others are copied from
// it, in a tenth of the time, and share the memory that they do not write
// to. It is for one process, since a guest's tables of random numbers are in it, and
// safe for concurrent use.
type Snapshot struct {
	module  *Module
	memory  *image
	globals []uint64
	random  *goRandom // nil: the guest drew no random numbers
	budget  *Budget
	closed  sync.Once
}

// ErrNoSnapshot is what the errors of [Instance.Snapshot] match.
var ErrNoSnapshot = errors.New("no snapshot can be taken")

// Snapshot takes a snapshot of an instance of a module that was compiled with
// [Options.Template], before its first call. What the guest has open is not in it: the
// caller takes care that there is nothing, or that copies find the same.
//
// # Errors
//
// All match [ErrNoSnapshot] and have the reason.
func (i *Instance) Snapshot() (*Snapshot, error) {
	t := i.module.template
	switch {
	case t == nil && i.module.noTemplate != nil:
		return nil, fmt.Errorf("%w: %w", ErrNoSnapshot, i.module.noTemplate)
	case t == nil:
		return nil, fmt.Errorf("%w: the module was compiled without a template", ErrNoSnapshot)
	case i.called || i.closed || i.random == nil:
		return nil, fmt.Errorf("%w: the instance was called already, or is itself a copy", ErrNoSnapshot)
	}
	content := i.guest.Memory.bytes[:i.guest.Memory.Size()]
	random, err := i.random.find(content)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoSnapshot, err)
	}
	s := &Snapshot{module: i.module, random: random, budget: i.guest.Budget}
	if !s.budget.TakeMemory(uint64(len(content))) {
		return nil, fmt.Errorf("%w: %w", ErrNoSnapshot, ErrMemoryBudget)
	}
	for _, name := range t.globals {
		s.globals = append(s.globals, i.ExportedGlobal(name).Get())
	}
	s.memory = newImage(content)
	return s, nil
}

// Instantiate makes an instance that begins as the snapshot did. Its configuration
// should be the one with which that was instantiated; no start function runs.
//
// # Errors
//
// As those of [Module.Instantiate].
func (s *Snapshot) Instantiate(ctx context.Context, cfg wazero.ModuleConfig) (*Instance, error) {
	i, err := s.module.instantiate(ctx, cfg.WithStartFunctions(), s.memory, rand.Reader)
	if err != nil {
		return nil, err
	}
	for n, name := range s.module.template.globals {
		i.ExportedGlobal(name).(api.MutableGlobal).Set(s.globals[n])
	}
	s.random.renew(i.guest.Memory.bytes)
	return i, nil
}

// Close releases the snapshot; instances that began with it go on. Closing twice is not an
// error.
func (s *Snapshot) Close() {
	s.closed.Do(func() {
		s.budget.GiveMemory(s.memory.size)
		s.memory.close()
	})
}
