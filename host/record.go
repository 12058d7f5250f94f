package host

import (
	"context"
	"errors"
	"sync"
)

// Recorder is asked about each call that begins of the plugins that it records, in the goroutine
// of the call. Nil: the call is made as if nobody recorded.
type Recorder func(p *Plugin, op string, request []byte, task *TaskScope) *RecordedCall

// RecordedCall is how a call is made that can be repeated later: in an instance that has seen none
// before it and sees none after it. All fields are required. The functions are called in the
// goroutine of the call, one after another.
type RecordedCall struct {
	// Request is what the plugin gets: the message of the caller, maybe in another encoding.
	Request []byte
	// Surroundings are the time, the randomness and the files of the instance.
	Surroundings Surroundings
	// Configured is told the configuration of the instance, and which directories it is granted,
	// before its initialiser runs. A call that does not come so far is only told to Ended.
	Configured func(config []byte, files FSGrant)
	// Exchanged is as of [Observer].
	Exchanged func(u CapabilityUse, x *Exchange)
	// Ended is told how the call ended: with an answer; with an error of the plugin's, an
	// [abi.Error]; with a [FaultError]; or with another error, when it was not left to end by
	// itself.
	Ended func(answer []byte, err error)
}

// ErrRecording is that the calls of a plugin are recorded already.
var ErrRecording = errors.New("the calls of a plugin are recorded already: a node makes one recording at a time")

// ErrNoPlugin is that no plugin of a name is loaded.
var ErrNoPlugin = errors.New("no plugin of that name is loaded")

// Record has a recorder asked about the calls of plugins of a name that begin from now on, until
// stop is called. Calls that go on then are still told to the recorder's functions. The errors are
// [ErrNoPlugin] and [ErrRecording].
func (h *Host) Record(name string, r Recorder) (stop func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.watches[name]
	switch {
	case w == nil || w.loaded == 0:
		return nil, ErrNoPlugin
	case h.recording:
		return nil, ErrRecording
	}
	h.recording = true
	w.recorder.Store(&r)
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		w.recorder.Store(nil)
		h.recording = false
	}), nil
}

// recorded asks the recorder, if there is one; nil: the call is not recorded.
func (p *Plugin) recorded(op string, request []byte, scope *TaskScope) *RecordedCall {
	if r := p.watched.recorder.Load(); r != nil {
		return (*r)(p, op, request, scope)
	}
	return nil
}

// errGivenUp is that a call was not left to end by itself.
var errGivenUp = errors.New("the call was given up")

// ended tells how a call ended.
func (r *RecordedCall) ended(answer []byte, err error) {
	var budget *BudgetError
	var fault *FaultError
	if errors.Is(err, errClosed) || errors.As(err, &budget) || errors.As(err, &fault) && fault.Kind == FaultHost {
		err = errGivenUp // by the node: another one would not
	}
	r.Ended(answer, err)
}

// recordedCall is the recorded call of a context; nil: it is none.
func recordedCall(ctx context.Context) *RecordedCall {
	if o, _ := ctx.Value(observerKey{}).(*Observer); o != nil {
		return o.recorded
	}
	return nil
}

// apart is the generation of an instance that is in no other call: it has all from its own
// beginning, and is not kept.
func (g generation) apart(r *RecordedCall) generation {
	return generation{number: -1, settings: g.settings, recorded: r}
}
