package meter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
)

const (
	// quantumStart is the fuel before anything is known of the guest: 5 to 50
	// microseconds for most.
	quantumStart = 10_000

	// quantumMin and quantumMax are what the fitting stays within. A yield costs
	// some 50 ns, so that the least, one or two microseconds of ordinary code, still
	// lets the guest get on. The most bounds what a guest gains by being cheap for a
	// while and then expensive.
	quantumMin = 200
	quantumMax = 200_000

	// quantumTime is what a quantum is fitted to: long beside a yield, and short
	// beside what anybody waits for, the garbage collector included.
	quantumTime = 50 * time.Microsecond
)

// Link adds the host's side of the meter to a runtime: the import that every
// rewritten module has.
func Link(ctx context.Context, r wazero.Runtime) error {
	_, err := r.NewHostModuleBuilder(ImportModule).
		NewFunctionBuilder().
		WithGoFunction(api.GoFunc(yield), nil, []api.ValueType{api.ValueTypeI32}).
		Export(ImportFunc).
		Instantiate(ctx)
	return err
}

// CoreFeatures returns the engine's name for what f and WebAssembly 2.0 allow.
func CoreFeatures(f wasmbin.Features) api.CoreFeatures {
	out := api.CoreFeaturesV2
	for _, p := range []struct {
		of     wasmbin.Features
		engine api.CoreFeatures
	}{
		{wasmbin.TailCall, experimental.CoreFeaturesTailCall},
		{wasmbin.ExtendedConst, experimental.CoreFeaturesExtendedConst},
		{wasmbin.ExceptionHandling, experimental.CoreFeaturesExceptionHandling},
		{wasmbin.TypedFunctionReferences, experimental.CoreFeaturesTypedFunctionReferences},
		{wasmbin.Threads, experimental.CoreFeaturesThreads},
	} {
		if f&p.of != 0 {
			out |= p.engine
		}
	}
	return out
}

// Usage is what guest code has used.
type Usage struct {
	// Time in guest code, by the wall clock: what the host does for the guest is
	// left out where it says so with [Pause]; what other threads of a busy machine
	// take is not.
	Time time.Duration
	// Yields is how often the guest asked for fuel.
	Yields uint64
	// LongestGap is the longest time between two yields, within which the guest
	// could not have been stopped.
	LongestGap time.Duration
}

func (u *Usage) add(v Usage) {
	u.Time += v.Time
	u.Yields += v.Yields
	u.LongestGap = max(u.LongestGap, v.LongestGap)
}

// Fuel is what one instance may still run: it fits the quantum to how fast the instance's
// code burns it, and accounts for the time. The zero value is ready. Like the
// instance, it is for one call at a time; a call within a host call of the same
// instance needs no entry of its own.
type Fuel struct {
	// Governor decides whether and when the guest goes on; nil: it does.
	Governor Governor

	quantum uint32
	since   time.Time     // when the guest began to run, zero while it does not
	gap     time.Duration // guest time after the last yield and before since
	call    Usage
	total   Usage
}

type fuelKey struct{}

// Enter begins a call: the guest is to be called with the context that it returns.
// When that ends, the guest is stopped at the next yield of
// its rewritten code: the call returns a [sys.ExitError] that matches the context's
// error, with the guest's stack, and the instance must not be used again.
func (f *Fuel) Enter(ctx context.Context) context.Context {
	f.call, f.gap, f.since = Usage{}, 0, time.Now()
	return context.WithValue(ctx, fuelKey{}, f)
}

// Leave ends the call and returns what it used.
func (f *Fuel) Leave() Usage {
	f.pause(time.Now())
	f.governor().Left(f.endGap())
	f.total.add(f.call)
	return f.call
}

func (f *Fuel) governor() Governor {
	if f.Governor == nil {
		return ungoverned{}
	}
	return f.Governor
}

// Total returns what all calls that have ended used.
func (f *Fuel) Total() Usage { return f.total }

// Pause marks that the guest of the call with this context waits for the host, and
// returns what marks that it goes on. A host function that may take long begins with
//
//	defer meter.Pause(ctx)()
func Pause(ctx context.Context) (resume func()) {
	f, _ := ctx.Value(fuelKey{}).(*Fuel)
	if f == nil || f.since.IsZero() {
		return func() {}
	}
	f.pause(time.Now())
	f.governor().Pause()
	return func() {
		f.governor().Resume(ctx)
		f.since = time.Now()
	}
}

func (f *Fuel) pause(now time.Time) {
	if !f.since.IsZero() {
		f.gap += now.Sub(f.since)
		f.since = time.Time{}
	}
}

// endGap accounts for the time since the last yield.
func (f *Fuel) endGap() (gap time.Duration) {
	gap, f.gap = f.gap, 0
	f.call.Time += gap
	f.call.LongestGap = max(f.call.LongestGap, gap)
	return gap
}

// stop accounts for the time since it was last done, and returns it. The guest goes on when
// its governor lets it.
func (f *Fuel) stop(ctx context.Context, now time.Time) (gap time.Duration) {
	f.pause(now)
	gap = f.endGap()
	if err := f.governor().Ran(ctx, gap); err != nil {
		Check(ctx)
		panic(err)
	}
	f.since = now
	if f.Governor != nil {
		f.since = time.Now() // it may have waited
	}
	return gap
}

// next returns the next quantum.
func (f *Fuel) next(ctx context.Context, now time.Time) uint32 {
	gap := f.stop(ctx, now)
	f.call.Yields++
	switch {
	case f.quantum == 0:
		f.quantum = quantumStart
	case gap > 2*quantumTime:
		f.quantum = max(f.quantum/2, quantumMin)
	case gap < quantumTime/2:
		f.quantum = min(f.quantum*2, quantumMax)
	}
	return f.quantum
}

// Check ends the guest of the call with this context when that is over. It is for host
// functions, which run on the guest's goroutine.
func Check(ctx context.Context) {
	if err := ctx.Err(); err != nil {
		panic(ExitError(err))
	}
}

// Visit is [Check] at the end of a host function, whose time is the guest's: a guest that
// spends all of it there comes by no yield for long.
func Visit(ctx context.Context) {
	Check(ctx)
	f, _ := ctx.Value(fuelKey{}).(*Fuel)
	if f == nil || f.since.IsZero() {
		return
	}
	if now := time.Now(); f.gap+now.Sub(f.since) > quantumTime {
		f.stop(ctx, now)
	}
}

// yield is what guests call when their fuel is used up.
func yield(ctx context.Context, stack []uint64) {
	Check(ctx)
	if f, _ := ctx.Value(fuelKey{}).(*Fuel); f != nil {
		stack[0] = uint64(f.next(ctx, time.Now()))
		return
	}
	stack[0] = quantumStart
}

// ExitError is how the engine itself reports that a context has ended with err. It is wrapped:
// of an error that is one itself the engine does not tell where the guest was.
func ExitError(err error) error {
	code := sys.ExitCodeContextCanceled
	if errors.Is(err, context.DeadlineExceeded) {
		code = sys.ExitCodeDeadlineExceeded
	}
	return fmt.Errorf("%w", sys.NewExitError(code))
}
