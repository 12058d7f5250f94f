package host

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host/recent"
	"github.com/wasmnode/wasmnode/internal/plaintext"
)

// The bounds of what is kept of a plugin, by its name, for who asks for it.
const (
	keptLogBytes  = 256 << 10
	keptCallBytes = 256 << 10 // while somebody traces
	maxTracedUses = 64        // of capabilities, of one call
	maxKeptNames  = 64        // of plugins that are not loaded, too
	// keptOverhead is what an entry takes besides its text, about.
	keptOverhead = 160
)

// LogLine is one line of a plugin's log. All texts are safe to show.
type LogLine struct {
	Time    time.Time         `json:"Time"`
	Level   string            `json:"Level"`
	Version string            `json:"Version"` // the plugin's own
	AllocID string            `json:"AllocID,omitempty"`
	Task    string            `json:"Task,omitempty"`
	Message string            `json:"Message"`
	Fields  map[string]string `json:"Fields,omitempty"`
}

// TracedCall is one call of a plugin, once it has ended. All texts are safe to show.
type TracedCall struct {
	Time      time.Time     `json:"Time"` // when it began
	Version   string        `json:"Version"`
	Operation string        `json:"Operation"`
	AllocID   string        `json:"AllocID,omitempty"`
	Task      string        `json:"Task,omitempty"`
	Took      time.Duration `json:"Took"` // ns
	Guest     time.Duration `json:"Guest"`
	Memory    uint64        `json:"Memory"`          // bytes
	Error     string        `json:"Error,omitempty"` // empty: it was answered
	Uses      []TracedUse   `json:"Uses,omitempty"`
	UsesLeft  int           `json:"UsesLeftOut,omitempty"` // beyond 64
}

// TracedUse is a use of a capability in a call.
type TracedUse struct {
	Operation string        `json:"Operation"` // of the call, or the configuration of a new instance
	Module    string        `json:"Module"`
	Function  string        `json:"Function"`
	Took      time.Duration `json:"Took"` // ns
	Error     string        `json:"Error,omitempty"`
}

// watched is what is kept under a plugin's name. Another version goes on with it.
type watched struct {
	lines   *recent.List[LogLine]
	calls   *recent.List[TracedCall]
	tracers atomic.Int32
	// recorder is who records the calls; nil: nobody.
	recorder atomic.Pointer[Recorder]
	loaded   int // plugins of that name; guarded by the host's mu
}

// watch returns what is kept under a name, for a plugin of it that has been loaded. Of names
// that no plugin has any more, few are remembered.
func (h *Host) watch(name string) *watched {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.watches[name]
	if w == nil {
		if len(h.watches) >= maxKeptNames {
			for other, of := range h.watches {
				if of.loaded == 0 {
					delete(h.watches, other)
					break
				}
			}
		}
		w = &watched{lines: recent.New[LogLine](keptLogBytes), calls: recent.New[TracedCall](keptCallBytes)}
		h.watches[name] = w
	}
	w.loaded++
	return w
}

// unwatch is the inverse of watch.
func (h *Host) unwatch(w *watched) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.loaded--
}

// LogLines returns a reader of the lines that plugins of a name have logged, from the last n of
// those that are kept: 256 KiB. It goes on with the plugin's next version. Nil: there is no
// plugin of that name, and was none.
func (h *Host) LogLines(name string, n int) *recent.Reader[LogLine] {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.watches[name]; w != nil {
		return w.lines.Last(n)
	}
	return nil
}

// Trace returns a reader of the calls of plugins of a name that begin from now on, each once it
// has ended; up to 256 KiB are kept for it. Nil: there is no plugin of that name, and was
// none. Stop ends the tracing.
func (h *Host) Trace(name string) (_ *recent.Reader[TracedCall], stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.watches[name]
	if w == nil {
		return nil, func() {}
	}
	w.tracers.Add(1)
	return w.calls.Last(0), sync.OnceFunc(func() { w.tracers.Add(-1) })
}

// keepLine keeps a line that was logged.
func (p *Plugin) keepLine(l LogLine) {
	if p.watched == nil {
		return // it has no name yet
	}
	l.Time, l.Version = time.Now(), p.Version()
	bytes := keptOverhead + len(l.Message) + len(l.AllocID) + len(l.Task)
	for key, value := range l.Fields {
		bytes += len(key) + len(value)
	}
	p.watched.lines.Add(l, bytes)
}

// watchCall has a call traced and recorded, if somebody asks for that, and returns its request.
// The returned function is called with its end; nil: nobody asks. Calls that somebody observes are
// neither.
func (p *Plugin) watchCall(ctx context.Context, op string, request []byte, scope *TaskScope) (context.Context, []byte, func(answer []byte, err error)) {
	if p.watched == nil || ctx.Value(observerKey{}) != nil {
		return ctx, request, nil
	}
	var trace *TracedCall
	if p.watched.tracers.Load() > 0 {
		trace = p.trace(op, scope)
	}
	recorded := p.recorded(op, request, scope)
	if trace == nil && recorded == nil {
		return ctx, request, nil
	}
	o := &Observer{recorded: recorded}
	if trace != nil {
		o.Asked, o.Returned = trace.used, trace.returned
	}
	if recorded != nil {
		o.Exchanged, request = recorded.Exchanged, recorded.Request
	}
	return WithObserver(ctx, o), request, func(answer []byte, err error) {
		if trace != nil {
			p.keepTrace(trace, err)
		}
		if recorded != nil {
			recorded.ended(answer, err)
		}
	}
}

// trace is the trace of a call that begins.
func (p *Plugin) trace(op string, scope *TaskScope) *TracedCall {
	c := &TracedCall{Time: time.Now(), Version: p.Version(), Operation: op}
	if scope != nil {
		c.AllocID, c.Task = scope.Config.GetAllocId(), scope.Config.GetName()
	}
	return c
}

// keepTrace keeps the trace of a call that has ended.
func (p *Plugin) keepTrace(c *TracedCall, err error) {
	c.Took = time.Since(c.Time)
	if err != nil {
		c.Error = errorText(err)
	}
	p.watched.calls.Add(*c, c.bytes())
}

// returned notes what an operation used.
func (c *TracedCall) returned(u CallUsage) { c.Guest, c.Memory = c.Guest+u.Guest, u.Memory }

// used notes a use of a capability.
func (c *TracedCall) used(u CapabilityUse) {
	if len(c.Uses) == maxTracedUses {
		c.UsesLeft++
		return
	}
	use := TracedUse{Operation: u.Op, Module: u.Module, Function: u.Function, Took: u.Took}
	switch {
	case u.Err != nil:
		use.Error = errorText(u.Err)
	case u.Ended:
		use.Error = "the call ended in it"
	}
	c.Uses = append(c.Uses, use)
}

func (c *TracedCall) bytes() int {
	n := keptOverhead + len(c.Error) + len(c.AllocID) + len(c.Task)
	for _, u := range c.Uses {
		n += keptOverhead + len(u.Error)
	}
	return n
}

// maxTracedText bounds an error in a trace.
const maxTracedText = 512

// errorText is an error for people, with its code where it has one.
func errorText(err error) string {
	text := err.Error()
	var answer *abi.Error
	if errors.As(err, &answer) {
		text = abi.CodeName(answer.Code) + ": " + answer.Message
	}
	return plaintext.Line(text, maxTracedText)
}
