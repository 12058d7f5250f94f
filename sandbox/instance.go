package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/wasmnode/wasmnode/sandbox/meter"
)

// Usage is what guest code has used.
type Usage = meter.Usage

// Pause marks that the guest waits for a host function whose context this is, so that
// its time is not the guest's, and returns what marks that the guest goes on.
func Pause(ctx context.Context) (resume func()) { return meter.Pause(ctx) }

// Instance is an instantiated module with fuel and a memory of its own. It
// serves one goroutine at a time, and has to be closed: nothing else releases its
// memory.
type Instance struct {
	api.Module
	fuel meter.Fuel
	// entered is the context of the call in progress, for what the guest does that
	// has no context of its own.
	entered context.Context
	memory  *Memory
	module  *Module
	random  *randomSource // what a first instance drew when it started; nil otherwise
	called  bool
	closed  bool
}

// What a caller can do wrong with an [Instance].
var (
	// ErrBusy: a call is in progress in the instance already, such as one whose host
	// function calls the instance again.
	ErrBusy = errors.New("the instance is in a call already")
	// ErrClosed: the instance, or its module, is closed.
	ErrClosed = errors.New("the instance is closed")
)

// Instantiate makes an instance and runs its start functions. Ending ctx ends them,
// wherever they are: in a loop, in a call tree, or asleep (cfg's Nanosleep is
// replaced for that). The instances of a template draw random numbers from the
// system, whatever cfg says.
//
// # Errors
//
// What the start functions ended with ([ExitCode], [Interrupted], else a trap), a
// [PanicError], or what does not link.
func (m *Module) Instantiate(ctx context.Context, cfg wazero.ModuleConfig) (*Instance, error) {
	if m.template == nil {
		return m.instantiate(ctx, cfg, nil)
	}
	random := &randomSource{}
	i, err := m.instantiate(ctx, cfg.WithRandSource(random), m.template.start)
	if err != nil {
		return nil, err
	}
	random.sealed, i.random = true, random
	return i, nil
}

// instantiate makes an instance whose memory begins with start, unless that is nil.
func (m *Module) instantiate(ctx context.Context, cfg wazero.ModuleConfig, start *image) (_ *Instance, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if m.closed.Load() {
		return nil, ErrClosed
	}
	i := &Instance{module: m}
	if ctx, i.memory, err = memoryFor(ctx, m.limit, start); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			i.memory.Free()
		}
	}()
	ctx = i.enter(ctx)
	defer i.leave()
	defer recovered(&err)
	i.Module, err = m.runtime.InstantiateModule(ctx, m.compiled, cfg.WithNanosleep(i.sleep))
	if err != nil {
		return nil, err
	}
	return i, nil
}

// Close closes the instance and releases its memory. It refuses with [ErrBusy] while
// a call is under way: the guest would run on in memory that is gone. Closing twice
// is not an error.
func (i *Instance) Close(ctx context.Context) error {
	switch {
	case i.closed:
		return nil
	case i.entered != nil:
		return ErrBusy
	}
	i.closed = true
	defer i.memory.Free()
	return i.Module.Close(ctx)
}

// Call calls a function of the instance and leaves what it returns in stack, which
// holds the arguments and has room for the results. Ending ctx ends the call. The
// instance is not to be used again after any error.
//
// # Errors
//
// As those of [Module.Instantiate]; [ErrBusy] and [ErrClosed].
func (i *Instance) Call(ctx context.Context, f api.Function, stack []uint64) (err error) {
	switch {
	case i.closed || i.module.closed.Load():
		return ErrClosed
	case i.entered != nil:
		return ErrBusy
	}
	i.called = true
	ctx = i.enter(ctx)
	defer i.leave()
	defer recovered(&err)
	return f.CallWithStack(ctx, stack)
}

// Usage returns what the start functions and all calls that have ended used. It must
// not be called during a call.
func (i *Instance) Usage() Usage { return i.fuel.Total() }

// enter begins a call, which the guest is to be called with the returned context in.
func (i *Instance) enter(ctx context.Context) context.Context {
	i.entered = i.fuel.Enter(ctx)
	return i.entered
}

// leave ends it.
func (i *Instance) leave() {
	i.fuel.Leave()
	i.entered = nil
}

// sleep pauses the guest and ends it there when its call is over: a guest that
// merely woke up would go back to sleep.
func (i *Instance) sleep(ns int64) {
	defer meter.Pause(i.entered)()
	timer := time.NewTimer(time.Duration(ns))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-i.entered.Done():
		panic(sys.NewExitError(sys.ExitCodeContextCanceled))
	}
}
