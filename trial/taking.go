package trial

import (
	"crypto/rand"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
)

// taking is a call that is being recorded. Nothing of it is masked before it has ended.
type taking struct {
	op      string
	request []byte
	config  []byte
	task    *wasmnodev1.TaskConfig // that the call is about, whose secrets are masked; nil: none is known
	began   time.Time
	seed    [32]byte
	world   *world
	uses    []takenUse
	bytes   int // of what is kept
	fs      host.FSGrant
	holds   func(bytes int) // is told what a use of a file adds; nil: nobody
}

// takenUse is a use of a capability, or of a file, with what went both ways.
type takenUse struct {
	use   host.CapabilityUse
	x     *host.Exchange
	file  *fileAsk // nil: it is of a capability
	got   *fileAnswer
	after time.Duration
}

// maxTakenBytes bounds what a call exchanges that is recorded.
const maxTakenBytes = 64 << 20

// takenOverhead is what a use takes besides its bytes, about.
const takenOverhead = 256

// take begins a call in a world of its own.
func take(w *world, op string, request []byte) *taking {
	t := &taking{op: op, request: inOrder(OperationMessage(op, "Request"), request), began: time.Now(), world: w}
	t.bytes = len(t.request)
	_, _ = rand.Read(t.seed[:]) // it never fails
	w.begin(t.began, t.seed, true, true, t.file)
	return t
}

// exchanged notes a use of a capability, and returns how many bytes it takes. What a plugin logs
// is none.
func (t *taking) exchanged(u host.CapabilityUse, x *host.Exchange) int {
	if u.Module == abi.ModuleLog {
		return 0
	}
	return t.keep(takenUse{use: u, x: x, after: t.world.capabilityReturned()}, len(x.Request)+len(x.Answer))
}

// file notes what a plugin asks of a file.
func (t *taking) file(op string, ask *fileAsk, do func() *fileAnswer) *fileAnswer {
	a := do()
	if op == abi.ExportInitialize {
		op = configuring(t.op)
	}
	n := t.keep(takenUse{use: host.CapabilityUse{Op: op}, file: ask, got: a, after: t.world.capabilityReturned()}, len(ask.Path)+len(ask.To)+len(ask.data)+a.bytes())
	if t.holds != nil {
		t.holds(n)
	}
	return a
}

// keep keeps a use of so many bytes, and returns how many it takes.
func (t *taking) keep(u takenUse, bytes int) int {
	if t.tooMuch() != nil {
		return 0
	}
	n := takenOverhead + bytes
	t.uses, t.bytes = append(t.uses, u), t.bytes+n
	return n
}

// tooMuch is why a recording has no room for the call; nil: it has.
func (t *taking) tooMuch() error {
	switch {
	case len(t.uses) > maxRecordedUses:
		return fmt.Errorf("it has more than %d uses of capabilities and files", maxRecordedUses)
	case t.bytes > maxTakenBytes:
		return fmt.Errorf("it exchanges more than %d bytes", maxTakenBytes)
	}
	return nil
}

// recorded is the call as it is recorded, with its secrets masked.
func (t *taking) recorded(k *masker, answer []byte, err error) *RecordedCall {
	out := &RecordedCall{Op: t.op, began: t.began, seed: t.seed, fs: t.fs}
	out.config = k.Object(t.config)
	k.learn(t.task)
	out.request = k.show(OperationMessage(t.op, "Request"), t.request)
	read := k.contents(t.uses)
	for i, u := range t.uses {
		if u.file != nil {
			out.Uses = append(out.Uses, &RecordedUse{
				Op: u.use.Op, Capability: fileModule + u.file.function, after: u.after, asked: k.askOf(u.file), answer: answered{answer: k.answerOf(u.got, read[i])},
			})
			continue
		}
		out.Uses = append(out.Uses, useOf(k, u.use, u.x, u.after))
	}
	out.outcome = outcomeOf(k, t.op, answer, err)
	if n := len(t.uses); n > 0 && t.uses[n-1].x != nil && t.uses[n-1].x.Over && out.outcome.interrupted() {
		out.Uses[n-1].answer = answered{ended: true}
	}
	return out
}

// inOrder encodes a message anew, as a replay does: a plugin may do one thing after another in
// the order in which it finds them in a map.
func inOrder(name string, b []byte) []byte {
	m, err := NewMessage(name)
	if err != nil || proto.Unmarshal(b, m) != nil {
		return b
	}
	if out, err := (proto.MarshalOptions{Deterministic: true}).Marshal(m); err == nil {
		return out
	}
	return b
}
