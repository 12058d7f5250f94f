package trial

import (
	"context"
	"errors"
	"slices"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/sdk/go/conform"
)

// player answers a plugin with what was recorded in one call.
type player struct {
	op       string
	uses     []*RecordedUse
	lastLine int // of the call, in the recording
	mask     masker
	// answered is told how much time has passed in the call as it was recorded.
	answered func(u *RecordedUse)
	end      context.CancelCauseFunc // of the call
	ends     error                   // with what a call ends that ended in a use
	// fail is which use fails. After it the plugin may ask for whatever it wants.
	fail conform.Fault

	next      int    // the use that is expected
	free      bool   // it may ask for whatever it wants
	lax       bool   // likewise, and for the same capability with another request
	given     []bool // the uses that were answered
	differs   *Difference
	tried     bool // what failed was asked for again
	unknown   int  // uses that the recording has no answer to
	countable int  // uses that can fail
}

// errDiffers ends a call that is not the recorded one.
var errDiffers = errors.New("it differs from the recording")

// errNotRecorded is what a use is answered that the recording has no answer to.
var errNotRecorded = abi.NewRecoverableError(abi.Unavailable, "the recording has no answer to this")

// closes are the capabilities that always work: whoever has a stream can give it back.
var closes = map[string]bool{"stream/v1 close": true, "stream/v1 shutdown": true}

// answer answers a use in the place of a capability. The plugin's log is left to the host.
func (p *player) answer(u host.CapabilityUse, x *host.Exchange) bool {
	if u.Module == abi.ModuleLog {
		return false
	}
	name := capabilityName(u.Module, u.Function)
	a := askedOf(&p.mask, name, x)
	if u.Answers {
		p.countable++
	}
	if p.fail.Use > 0 && u.Answers && p.countable == p.fail.Use {
		p.free = true
		failWith(x, p.fail.Err)
		return true
	}
	rec := p.find(u, name, a)
	if rec == nil {
		if !p.free && !p.lax || !closes[name] {
			failWith(x, errNotRecorded)
		}
		return true
	}
	if rec.answer.ended {
		p.end(p.ends)
		return true
	}
	p.answered(rec)
	if err := rec.answer.err; err != nil {
		failWith(x, err)
		return true
	}
	x.Count = rec.answer.count
	x.Answer, _ = wire(messagesOf[name][1], rec.answer.answer) // it was checked when it was read
	return true
}

// file answers what a plugin asks of a file.
func (p *player) file(op string, ask *fileAsk, _ func() *fileAnswer) *fileAnswer {
	if op == abi.ExportInitialize {
		op = configuring(p.op)
	}
	p.countable++
	if p.fail.Use > 0 && p.countable == p.fail.Use {
		p.free = true
		return &fileAnswer{errno: failures[p.fail.Err.Code]}
	}
	rec := p.find(host.CapabilityUse{Op: op}, fileModule+ask.function, p.mask.askOf(ask))
	if rec == nil {
		return &fileAnswer{errno: experimentalsys.EIO}
	}
	p.answered(rec)
	a, _ := readFileAnswer(rec.answer.answer) // it was checked when it was read
	return a
}

func failWith(x *host.Exchange, err *abi.Error) {
	x.Code = err.Code
	if m := abi.Proto(err); m.Message != "" {
		x.Answer = encodeError(m)
	}
}

func encodeError(m *wasmnodev1.Error) []byte {
	b, _ := m.MarshalVT() // it can be encoded
	return b
}

// find returns what was recorded; nil: nothing.
func (p *player) find(u host.CapabilityUse, name string, a asked) *RecordedUse {
	if p.free || p.lax {
		return p.findAny(u, name, a)
	}
	if p.next == len(p.uses) {
		p.differ(&Difference{Use: p.next + 1, Line: p.lastLine, What: "the plugin asks for more than was recorded", Now: quote(name)})
		return nil
	}
	rec := p.uses[p.next]
	if d := rec.differs(u.Op, name, a); d != nil {
		d.Use, d.Line = p.next+1, rec.Line
		p.differ(d)
		return nil
	}
	p.given[p.next] = true
	p.next++
	return rec
}

// findAny returns a recorded use that is the same: the first that was not answered yet, else the
// last that was. A lax player has others of the capability in their order.
func (p *player) findAny(u host.CapabilityUse, name string, a asked) *RecordedUse {
	found := -1
	for i, rec := range p.uses {
		if rec.differs(u.Op, name, a) != nil {
			continue
		}
		if found = i; !p.given[i] {
			break
		}
	}
	if found < 0 && p.lax {
		found = p.other(u.Op, name)
	}
	if found < 0 {
		p.unknown++
		return nil
	}
	p.given[found] = true
	p.tried = p.tried || found == p.next && p.fail.Use > 0
	return p.uses[found]
}

// other is the first use of a capability that was not answered yet.
func (p *player) other(op, name string) int {
	for i, rec := range p.uses {
		if rec.Op == op && rec.Capability == name && !p.given[i] {
			return i
		}
	}
	return -1
}

// differ ends the call, which is not the recorded one.
func (p *player) differ(d *Difference) {
	if p.differs == nil {
		p.differs = d
	}
	p.end(errDiffers)
}

// left is the first recorded use that was not asked for; nil: there is none.
func (p *player) left() *RecordedUse {
	if i := slices.Index(p.given, false); i >= 0 {
		return p.uses[i]
	}
	return nil
}
