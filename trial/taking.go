package trial

import (
	"crypto/rand"
	"strings"
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
}

// takenUse is a use of a capability with what went both ways.
type takenUse struct {
	use   host.CapabilityUse
	x     *host.Exchange
	after time.Duration
}

// takenOverhead is what a use takes besides its bytes, about.
const takenOverhead = 256

// take begins a call in a world of its own.
func take(w *world, op string, request []byte) *taking {
	t := &taking{op: op, request: inOrder(OperationMessage(op, "Request"), request), began: time.Now(), world: w}
	t.bytes = len(t.request)
	_, _ = rand.Read(t.seed[:]) // it never fails
	w.begin(t.began, t.seed, true, true)
	return t
}

// exchanged notes a use of a capability, and returns how many bytes it takes. What a plugin logs
// is none.
func (t *taking) exchanged(u host.CapabilityUse, x *host.Exchange) int {
	if u.Module == abi.ModuleLog {
		return 0
	}
	after := t.world.capabilityReturned()
	if len(t.uses) > maxRecordedUses {
		return 0
	}
	n := takenOverhead + len(x.Request) + len(x.Answer)
	t.uses, t.bytes = append(t.uses, takenUse{u, x, after}), t.bytes+n
	return n
}

// tooMany reports whether a recording has no room for so many uses.
func (t *taking) tooMany() bool { return len(t.uses) > maxRecordedUses }

// recorded is the call as it is recorded, with its secrets masked.
func (t *taking) recorded(k *masker, answer []byte, err error) *RecordedCall {
	out := &RecordedCall{Op: t.op, began: t.began, seed: t.seed}
	out.config = k.Object(t.config)
	k.learn(t.task)
	out.request = k.show(OperationMessage(t.op, "Request"), t.request)
	for _, u := range t.uses {
		out.Uses = append(out.Uses, useOf(k, u.use, u.x, u.after))
	}
	out.outcome = outcomeOf(k, t.op, answer, err)
	for _, name := range t.world.named() {
		out.Files = append(out.Files, k.Text(strings.ToValidUTF8(name, "�")))
	}
	if n := len(t.uses); n > 0 && t.uses[n-1].x.Over && out.outcome.interrupted() {
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
