package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wasmnode/wasmnode/sandbox/descriptor"
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
	fuel   meter.Fuel
	guest  *Guest
	module *Module
	random *randomSource // what a first instance drew when it started; nil otherwise
	called bool
	idled  bool // it has waited for idleAfter
	closed bool
}

// idleAfter is for how long a guest waits at once before its memory is looked through, once:
// it is at rest, and the work of that does not matter beside the wait.
const idleAfter = 100 * time.Millisecond

// What a caller can do wrong with an [Instance].
var (
	// ErrBusy: a call is in progress in the instance already, such as one whose host
	// function calls the instance again.
	ErrBusy = errors.New("the instance is in a call already")
	// ErrClosed: the instance, or its module, is closed.
	ErrClosed = errors.New("the instance is closed")
)

// Instantiate makes an instance and runs its start functions. Ending ctx ends them,
// wherever they are: in a loop, in a call tree, in a host function or asleep. For that
// cfg's Nanosleep is replaced, and its source of random numbers by the guest's or the system's.
//
// # Errors
//
// What the start functions ended with ([ExitCode], [Interrupted], else a trap), a
// [PanicError], [ErrMemoryBudget], [ErrTimeBudget], or what does not link.
func (m *Module) Instantiate(ctx context.Context, cfg wazero.ModuleConfig) (*Instance, error) {
	var start *image
	if m.template != nil {
		start = m.template.start
	}
	if own := guestOf(ctx).Random; own != nil {
		return m.instantiate(ctx, cfg, start, own)
	}
	if m.template == nil {
		return m.instantiate(ctx, cfg, nil, rand.Reader)
	}
	random := &randomSource{}
	i, err := m.instantiate(ctx, cfg, start, random)
	if err != nil {
		return nil, err
	}
	random.sealed, i.random = true, random
	return i, nil
}

// instantiate makes an instance whose memory begins with start, unless that is nil, and
// that draws its random numbers from random.
func (m *Module) instantiate(ctx context.Context, cfg wazero.ModuleConfig, start *image, random io.Reader) (_ *Instance, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if m.closed.Load() {
		return nil, ErrClosed
	}
	i := &Instance{module: m, guest: guestOf(ctx)}
	i.fuel.Governor = &governor{guest: i.guest, turns: m.engine.turns, runner: i.guest.runner()}
	memory := &i.guest.Memory
	memory.budget, memory.takes = i.guest.Budget, i.guest.Takes
	if err := memory.prepare(m.limit, start); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			memory.Free()
		}
		if err != nil && memory.Starved() {
			err = ErrMemoryBudget
		}
	}()
	ctx = i.enter(experimental.WithMemoryAllocator(ctx, memory))
	defer i.leave()
	defer recovered(&err)
	if d := i.guest.Descriptors; d != nil {
		d.WhenIdle(idleAfter, i.idle)
	}
	cfg = cfg.WithNanosleep(i.sleep).WithRandSource(clockedRandom{i.guest, random})
	i.Module, err = m.runtime.InstantiateModule(ctx, m.compiled, cfg)
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
	case i.guest.entered != nil:
		return ErrBusy
	}
	i.closed = true
	defer i.guest.Memory.Free()
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
	case i.guest.entered != nil:
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
	if i.guest.Descriptors != nil {
		ctx = descriptor.With(ctx, i.guest.Descriptors)
	}
	i.guest.entered = i.fuel.Enter(ctx)
	return i.guest.entered
}

// leave ends it.
func (i *Instance) leave() {
	i.fuel.Leave()
	i.guest.entered = nil
}

// sleep pauses the guest and ends it there when its call is over: a guest that
// merely woke up would go back to sleep.
func (i *Instance) sleep(ns int64) {
	defer meter.Pause(i.guest.entered)()
	d := time.Duration(ns)
	if i.guest.Asleep != nil {
		d = i.guest.Asleep(d)
	}
	if d > idleAfter && !i.idled {
		i.rest(idleAfter)
		i.idle()
		d -= idleAfter
	}
	i.rest(d)
}

// idle is called on the guest's goroutine when it has waited for idleAfter.
func (i *Instance) idle() {
	if !i.idled {
		i.idled = true
		i.guest.Memory.trim()
	}
}

// rest waits, and ends the guest when its call is over.
func (i *Instance) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-i.guest.entered.Done():
		panic(meter.ExitError(i.guest.entered.Err()))
	}
}
