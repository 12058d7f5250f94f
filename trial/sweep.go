package trial

import (
	"context"
	"fmt"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/conform"
)

// Ending is what a plugin made of a capability that failed.
type Ending string

// The endings.
const (
	Refused Ending = "error"   // it answered an error of the contract
	Faulted Ending = "fault"   // it trapped, was too slow, or broke the contract
	Claimed Ending = "success" // it answered as if nothing had been
)

// SweptFault is one use of a capability that failed, and what came of it.
type SweptFault struct {
	Call       int // which of the recording's, from 1
	Op         string
	Use        int // which of the call's, from 1
	Capability string
	Failure    string // the code of the error that the use was answered; of a file, EIO, EACCES or EINTR
	Ending     Ending
	Text       string // of the error or fault
	// Same: it is a success with the recorded answer.
	Same bool
	// Repeated: the plugin asked again for what had failed, and got it.
	Repeated bool
	// Unknown is how often it asked then for what the recording has no answer to.
	Unknown int
	// Retry is why the same call did not end as it was recorded to when it was made again after
	// the failure; empty: it did.
	Retry string
}

// Bad reports whether no plugin may do that.
func (f *SweptFault) Bad() bool { return f.Ending == Faulted || f.Retry != "" }

// Sweep fails each use of a capability or a file in a recording once in each of [conform.Ways], and has
// the plugin called again after it. What the plugin asks for after the failure is answered with
// what was recorded for it, closing streams always, else with UNAVAILABLE; in the call
// after it also with what was recorded for the capability, if the request is another. The
// recording is replayed before, as by [Trial.Replay], whose errors are those of Sweep.
func (t *Trial) Sweep(ctx context.Context, r *Recording, dir string, timeout time.Duration, each func(f *SweptFault)) error {
	known, err := t.replay(ctx, r, dir, timeout)
	if err != nil {
		return err
	}
	for i, rec := range r.Calls {
		c, err := t.prepareAgain(rec, dir)
		if err != nil {
			return err
		}
		can := rec.canFail()
		for fail := range conform.Faults(len(can)) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			f := &SweptFault{Call: i + 1, Op: rec.Op, Use: can[fail.Use-1] + 1, Failure: abi.CodeName(fail.Err.Code)}
			use := rec.Uses[can[fail.Use-1]]
			f.Capability = use.name()
			if isFile(use.Capability) {
				f.Failure = errnoName(failures[fail.Err.Code])
			}
			t.fail(ctx, c, rec, rec.player(known[i]), fail, f, timeout)
			again := rec.player(known[i])
			again.lax = true // what it draws and counts is not as in a new instance
			now := t.play(ctx, c, again, rec, timeout, use.Op != rec.Op)
			f.Retry = now.unlike(rec.outcome)
			each(f)
		}
	}
	return nil
}

// canFail are the indices of the uses that can be answered with an error.
func (c *RecordedCall) canFail() (out []int) {
	for i, u := range c.Uses {
		if u.Capability != capabilityName(abi.ModuleTask, abi.FuncTaskRefresh) {
			out = append(out, i)
		}
	}
	return out
}

// fail makes a call in which a use fails.
func (t *Trial) fail(ctx context.Context, c Call, rec *RecordedCall, p *player, fail conform.Fault, f *SweptFault, timeout time.Duration) {
	p.fail = fail
	now := t.play(ctx, c, p, rec, timeout, true)
	f.Repeated, f.Unknown = p.tried, p.unknown
	switch now.kind() {
	case "fault":
		f.Ending, f.Text = Faulted, now.text
	case "error":
		f.Ending, f.Text = Refused, abi.CodeName(now.err.Code)+": "+now.err.Message
	default:
		f.Ending, f.Same = Claimed, rec.outcome.differs(now) == nil
	}
}

// unlike is how an outcome is not the recorded one, as far as a retry has to be: the answers may
// differ. Empty: it is like it.
func (o outcome) unlike(recorded outcome) string {
	switch {
	case o.kind() == recorded.kind() && (o.err == nil || o.err.Code == recorded.err.Code):
		return ""
	case o.fault != "":
		return o.text
	case o.err != nil:
		return fmt.Sprintf("it answers %s: %s", abi.CodeName(o.err.Code), o.err.Message)
	}
	return "it answers, and was recorded to answer an error or to fault"
}
