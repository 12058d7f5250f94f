package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/host/recent"
)

// The bounds of a recording of a node's plugin, and what they are without a wish.
const (
	DefaultLiveTime  = 10 * time.Minute
	MaxLiveTime      = time.Hour
	DefaultLiveBytes = 64 << 20
	MaxLiveBytes     = maxRecordingBytes
)

const (
	// maxHeld bounds what calls in progress exchange that is kept until they have ended, and
	// maxWaiting the text that waits to be read.
	maxHeld    = 32 << 20
	maxWaiting = 32 << 20
)

// LiveBounds bound a recording. Both are positive, and at most [MaxLiveTime] and [MaxLiveBytes].
type LiveBounds struct {
	Time  time.Duration
	Bytes int // of the text
}

// Live is a recording of the calls of a plugin of a running node that begin from now on: see
// [RecordLive]. One goroutine at a time reads it. Close it.
type Live struct {
	plugin string
	bounds LiveBounds
	until  time.Time
	parts  *recent.List[LivePart]
	reader *recent.Reader[LivePart]
	stop   func()
	told   bool // that it has ended

	// masking is held while a call that has ended is masked, which takes long if it is large. It is
	// taken before mu, which those take that go on.
	masking sync.Mutex
	mask    masker

	mu     sync.Mutex
	header *Recording // nil: there was no call yet
	ended  bool
	calls  int
	bytes  int
	held   int // by calls in progress
	left   int
}

// LivePart is one call of a recording, or its end.
type LivePart struct {
	Operation string `json:"Operation,omitempty"`
	AllocID   string `json:"AllocID,omitempty"`
	Task      string `json:"Task,omitempty"`
	Uses      int    `json:"Uses"` // of capabilities
	// Files are those that it asked for by WASI, sorted, at most 32.
	Files []string `json:"Files,omitempty"`
	Error string   `json:"Error,omitempty"` // empty: it was answered
	// Header is the first line of the recording, and Text the lines of the call.
	Header string `json:"Header,omitempty"`
	Text   string `json:"Text,omitempty"`
	// LeftOut is how many calls before it are not recorded, since they were too large or the node
	// gave them up.
	LeftOut int `json:"LeftOut,omitempty"`
	// End is why the recording has ended; empty: it goes on.
	End string `json:"End,omitempty"`
}

// RecordLive records the calls of a plugin of a host. Each is made in an instance of its own, with
// a clock that stands still while the plugin computes, as in a trial: only so it can be repeated.
// The errors are those of [host.Host.Record].
func RecordLive(h *host.Host, name string, bounds LiveBounds) (*Live, error) {
	l := &Live{plugin: name, bounds: bounds, until: time.Now().Add(bounds.Time), parts: recent.New[LivePart](maxWaiting)}
	l.reader = l.parts.Last(0)
	stop, err := h.Record(name, l.begin)
	if err != nil {
		return nil, err
	}
	l.stop = stop
	return l, nil
}

// Close ends the recording.
func (l *Live) Close() {
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

// Read returns the next part, and how many before it are lost since they were not read as fast as
// they came. The error is that there is none now.
func (l *Live) Read() (part LivePart, lost uint64, err error) { return l.reader.Read() }

// Wait is Read, but waits for a part. After the one that says that the recording has ended it
// returns [io.EOF].
func (l *Live) Wait(ctx context.Context) (part LivePart, lost uint64, err error) {
	if l.told {
		return part, 0, io.EOF
	}
	timed, cancel := context.WithDeadline(ctx, l.until)
	defer cancel()
	part, lost, err = l.reader.Wait(timed)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		l.Close()
		part, err = l.end(fmt.Sprintf("it has taken %v", l.bounds.Time)), nil
	}
	l.told = part.End != ""
	return part, lost, err
}

// begin is a [host.Recorder].
func (l *Live) begin(p *host.Plugin, op string, request []byte, scope *host.TaskScope) *host.RecordedCall {
	if !l.admits(p) {
		return nil
	}
	w := &world{}
	c := &liveCall{live: l, taking: take(w, op, request), part: LivePart{Operation: op}}
	c.holds = c.hold
	if scope != nil {
		c.task = scope.Config
		c.part.AllocID, c.part.Task = scope.Config.GetAllocId(), scope.Config.GetName()
	}
	c.hold(c.bytes)
	return &host.RecordedCall{
		Request: c.request, Surroundings: w,
		Configured: func(config []byte, files host.FSGrant) { c.entered, c.config, c.fs = true, config, files },
		Exchanged:  func(u host.CapabilityUse, x *host.Exchange) { c.hold(c.exchanged(u, x)) },
		Ended:      c.end,
	}
}

// admits reports whether a call of that plugin is recorded. A recording is of one file.
func (l *Live) admits(p *host.Plugin) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	if l.header == nil {
		l.header = newRecording(p)
		l.mask.Names = l.header.Secrets // no call has ended yet
	}
	if l.header.Digest != p.Digest() {
		l.finish(fmt.Sprintf("the plugin is another file now, of version %s", p.Version()))
		return false
	}
	return true
}

// finish ends the recording, for a reason. The caller holds mu.
func (l *Live) finish(reason string) {
	l.ended = true
	l.parts.Add(l.endLocked(reason), takenOverhead)
}

func (l *Live) end(reason string) LivePart {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.endLocked(reason)
}

func (l *Live) endLocked(reason string) LivePart {
	part := LivePart{End: reason, LeftOut: l.left}
	l.left = 0
	return part
}

// liveCall is a call that is being recorded.
type liveCall struct {
	*taking
	live    *Live
	part    LivePart
	entered bool
	dropped bool // it is too large
}

// hold counts what the call keeps, and drops it where all keep too much.
func (c *liveCall) hold(bytes int) {
	c.live.mu.Lock()
	defer c.live.mu.Unlock()
	c.live.held += bytes
	if c.live.held > maxHeld || c.tooMuch() != nil {
		c.dropped = true
	}
	if c.dropped {
		c.live.held -= c.bytes
		c.bytes, c.uses = 0, nil
	}
}

// end writes the call.
func (c *liveCall) end(answer []byte, err error) {
	l := c.live
	defer c.release()
	if !c.entered {
		return
	}
	l.masking.Lock()
	defer l.masking.Unlock()
	if l.hasEnded() {
		return
	}
	rec := c.recorded(&l.mask, answer, err) // also of one that is left out: others may have its secrets
	var text bytes.Buffer
	complete := !c.dropped && rec.repeatable() && rec.write(&text) == nil
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
	case l.mask.Over:
		l.left++
		l.finish(errOver.Error())
	case !complete:
		l.left++
	default:
		c.part.Uses, c.part.Files, c.part.Error, c.part.Text = rec.capabilities(), rec.Files(), rec.outcome.forPeople(), text.String()
		l.add(c.part)
	}
}

// release forgets what the call kept.
func (c *liveCall) release() {
	c.live.mu.Lock()
	defer c.live.mu.Unlock()
	c.live.held -= c.bytes
}

func (l *Live) hasEnded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// add adds a call to the recording, if there is room for it. The caller holds mu.
func (l *Live) add(part LivePart) {
	var header bytes.Buffer
	if l.header.write(&header) != nil {
		l.left++
		return
	}
	first := 0
	if l.calls == 0 {
		first = header.Len()
	}
	if l.bytes+first+len(part.Text) > l.bounds.Bytes {
		l.left++
		l.finish(fmt.Sprintf("another call would make it larger than %d bytes", l.bounds.Bytes))
		return
	}
	l.calls, l.bytes = l.calls+1, l.bytes+first+len(part.Text)
	part.Header, part.LeftOut, l.left = header.String(), l.left, 0
	l.parts.Add(part, takenOverhead+len(part.Header)+len(part.Text))
	if l.calls == maxRecordedCalls {
		l.finish(fmt.Sprintf("it has %d calls", maxRecordedCalls))
	}
}

// repeatable reports whether a replay can have the call end as it did. What was given up can be
// only in a use of a capability.
func (c *RecordedCall) repeatable() bool {
	return c.outcome.fault != givenUp || len(c.Uses) > 0 && c.Uses[len(c.Uses)-1].answer.ended
}

// forPeople is why a call has no answer; empty: it has one.
func (o outcome) forPeople() string {
	switch {
	case o.err != nil:
		return o.err.Error()
	case o.fault != "":
		return o.text
	}
	return ""
}
