package host

import (
	"context"
	"slices"

	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host/stream"
	"github.com/wasmnode/wasmnode/sandbox"
)

// Exchange is what goes both ways when a guest uses a capability.
type Exchange struct {
	// Number is the stream that the function is about, if it is about one.
	Number uint32
	// Room is how many bytes stream read may answer; of stream blocking, whether it is set.
	Room uint32
	// Request is what is handed over: a message, bytes of the task's output or of a stream, or a
	// line of the log. It is cut at the 4 MiB that no function takes.
	Request []byte

	// Code is that of an error; 0: none.
	Code abi.Code
	// Count is how many bytes stream write took.
	Count uint32
	// Answer is the message that is answered, an Error with a Code; what stream read read.
	Answer []byte
	// Ended is as of [CapabilityUse].
	Ended bool
	// Over: the call was over when it was answered, and is ended as soon as the guest goes on.
	Over bool
}

// maxExchanged bounds what is copied of a request.
const maxExchanged = 4 << 20

// guestCall is a call of a host function.
type guestCall struct {
	*call
	memory api.Module
	stack  []uint64
	params int
}

// exchange has a capability do its work, or the observer in its place, and tells of it.
func (o *Observer) exchange(ctx context.Context, g *guestCall, u CapabilityUse, do func()) {
	if o.Answers == nil && o.Exchanged == nil {
		do()
		return
	}
	x := &Exchange{Ended: true}
	into := g.request(u, x)
	defer func() {
		if o.Exchanged != nil {
			o.Exchanged(u, x)
		}
	}()
	if o.Answers != nil && o.Answers(u, x) {
		sandbox.Check(ctx) // the observer may have ended the call
		g.answer(u, x, into)
	} else {
		do()
		if u.Answers {
			g.answered(x, into)
		}
	}
	x.Ended, x.Over = false, ctx.Err() != nil
}

// request reads what the guest hands over, and returns where it wants bytes: what it hands over
// wrongly the capability finds out.
func (g *guestCall) request(u CapabilityUse, x *Exchange) (into []byte) {
	s := g.stack
	switch g.params {
	case 1:
		x.Number = uint32(s[0])
	case 2:
		if u.Module == abi.ModuleStream && u.Function == abi.FuncStreamBlocking {
			x.Number, x.Room = uint32(s[0]), uint32(s[1])
			break
		}
		x.Request = g.copy(s[0], s[1])
	case 3:
		x.Number = uint32(s[0])
		if u.Module == abi.ModuleStream && u.Function == abi.FuncStreamRead {
			x.Room = min(uint32(s[2]), stream.PipeBytes)
			into, _ = g.memory.Memory().Read(uint32(s[1]), x.Room)
			break
		}
		x.Request = g.copy(s[1], s[2])
	case 5: // log write: the line
		x.Request = g.copy(s[1], s[2])
	}
	return into
}

// copy copies bytes of the guest's, if that is what they are.
func (g *guestCall) copy(ptr, length uint64) []byte {
	b, _ := g.memory.Memory().Read(uint32(ptr), min(uint32(length), maxExchanged))
	return slices.Clone(b)
}

// answered reads what a capability has answered.
func (g *guestCall) answered(x *Exchange, into []byte) {
	code, low := abi.SplitStatus(g.stack[0])
	x.Code, x.Answer = abi.Code(code), slices.Clone(g.staged)
	if code == 0 && g.staged == nil {
		x.Count, x.Answer = low, slices.Clone(into[:min(int(low), len(into))])
	}
}

// answer answers the guest in a capability's place.
func (g *guestCall) answer(u CapabilityUse, x *Exchange, into []byte) {
	if !u.Answers {
		return
	}
	g.staged = nil
	switch {
	case x.Code == 0 && u.Module == abi.ModuleStream && u.Function == abi.FuncStreamRead:
		x.Count = uint32(copy(into, x.Answer))
		g.stack[0] = abi.Status(0, x.Count)
	case x.Code == 0 && u.Module == abi.ModuleStream && u.Function == abi.FuncStreamWrite:
		x.Count = min(x.Count, uint32(len(x.Request)))
		g.stack[0] = abi.Status(0, x.Count)
	default:
		g.staged = x.Answer
		g.stack[0] = abi.Status(uint32(x.Code), uint32(len(x.Answer)))
	}
}
