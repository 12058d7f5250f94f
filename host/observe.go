package host

import (
	"context"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sandbox"
)

// Observer sees what a plugin asks of the node in the calls of a context: see [WithObserver].
// Its functions are called in the goroutine of the call, between the guest and the capability.
// Nil ones are not called.
type Observer struct {
	// Asks is told of a use before the capability does anything. What it returns, if it is not
	// nil, is what the plugin is answered instead, where the function answers anything.
	Asks func(u CapabilityUse) error
	// Asked is told of a use after it.
	Asked func(u CapabilityUse)
	// Answers is asked to answer a use in the place of the capability, with what the guest hands
	// over in x, by setting the rest of it. False: it does not.
	Answers func(u CapabilityUse, x *Exchange) bool
	// Exchanged is told of a use that came to a capability, or to Answers, with what went both
	// ways.
	Exchanged func(u CapabilityUse, x *Exchange)
	// Returned is told of each operation that the guest was entered for: of configure on a new
	// instance, too.
	Returned func(u CallUsage)
	// Masked is that the secrets in what the plugin says are masked, also by a host that does not.
	Masked bool

	recorded *RecordedCall // nil: the call is not recorded
}

// CapabilityUse is that a guest used a capability once. WASI is not among them.
type CapabilityUse struct {
	Op               string // the operation that it was in
	Module, Function string
	Answers          bool          // whether the function answers anything, and can fail
	Took             time.Duration // what it waited for included
	Err              error         // what it was answered; nil: no failure
	// Ended: the guest did not come back from it, since its call was over or it had broken the
	// contract.
	Ended bool
}

// CallUsage is what one operation of a guest used.
type CallUsage struct {
	Op     string
	Guest  time.Duration // in its own code
	Fuel   uint64        // how often it was given fuel: each 50 µs of its code, about
	Memory uint64        // that its instance has, in bytes
}

type observerKey struct{}

// WithObserver returns a context whose calls an observer sees.
func WithObserver(ctx context.Context, o *Observer) context.Context {
	return context.WithValue(ctx, observerKey{}, o)
}

// observed are the functions of a host module for guests whose calls may be observed.
func observed(module string, funcs map[string]sandbox.HostFunc) map[string]sandbox.HostFunc {
	out := map[string]sandbox.HostFunc{}
	for name, f := range funcs {
		run, answers := f.Run, answersStatus(f)
		f.Run = func(ctx context.Context, m api.Module, stack []uint64) {
			c := callOf(ctx)
			if c.observer == nil {
				run(ctx, m, stack)
				return
			}
			u := CapabilityUse{Op: c.op, Module: module, Function: name, Answers: answers}
			c.observer.run(c, u, stack, func() {
				c.observer.exchange(ctx, &guestCall{call: c, memory: m, stack: stack, params: len(f.Params)}, u, func() { run(ctx, m, stack) })
			})
		}
		out[name] = f
	}
	return out
}

// run has a capability do its work, or fail. Of one that answers, its status is in the stack.
func (o *Observer) run(c *call, u CapabilityUse, stack []uint64, do func()) {
	began, back := time.Now(), false
	defer func() {
		u.Took, u.Ended = time.Since(began), !back
		if o.Asked != nil {
			o.Asked(u)
		}
	}()
	if o.Asks != nil {
		if err := o.Asks(u); err != nil && u.Answers {
			stack[0], u.Err, back = c.stage(nil, err), err, true
			return
		}
	}
	do()
	back = true
	if u.Answers {
		u.Err = c.failure(stack[0])
	}
}

// failure is the error that a status stands for; nil: it is one of success.
func (c *call) failure(status uint64) error {
	code, _ := abi.SplitStatus(status)
	if code == 0 {
		return nil
	}
	var m wasmnodev1.Error
	if m.UnmarshalVT(c.staged) != nil || m.Code == 0 {
		m = wasmnodev1.Error{Code: abi.Code(code)} // of one without an answer
	}
	return abi.FromProto(&m)
}

// returned tells an observer, if there is one, what an operation used.
func (o *Observer) returned(u CallUsage) {
	if o != nil && o.Returned != nil {
		o.Returned(u)
	}
}
