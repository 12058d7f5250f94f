package descriptor

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/tetratelabs/wazero/api"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/sandbox/meter"
)

const (
	bytesOfSubscription = 48
	bytesOfEvent        = 32
	eventClock          = 0
	eventRead           = 1
	eventWrite          = 2
	flagHangup          = 1 << 0
)

// othersTick is how often a guest that waits for other guests to close connections looks
// whether they have.
const othersTick = 100 * time.Millisecond

// never is a deadline that does not come.
var never time.Time

// subscription is one thing that a guest waits for.
type subscription struct {
	user   [8]byte
	event  byte
	due    time.Time // of a clock
	ours   bool      // the descriptor is the table's
	handle *handle   // of it; nil: it is closed
}

// events is what to wait for on its handle.
func (s *subscription) events() int16 {
	if s.event == eventWrite {
		return unix.POLLOUT
	}
	return unix.POLLIN
}

// poll is poll_oneoff, where one of the subscriptions is about a descriptor of the table:
// otherwise it reports false. All else but the clock is ready at once, as files are.
func (t *Table) poll(ctx context.Context, memory api.Memory, stack []uint64) bool {
	in, out, n, result := uint32(stack[0]), uint32(stack[1]), uint32(stack[2]), uint32(stack[3])
	subscribed, ok := memory.Read(in, n*bytesOfSubscription)
	if !ok {
		return false // it is refused by the engine
	}
	subscriptions, ours, e := t.subscriptions(subscribed)
	if !ours {
		return false
	}
	events, ok := memory.Read(out, n*bytesOfEvent)
	if _, room := memory.Read(result, 4); !ok || !room {
		e = fault
	}
	if e != success {
		stack[0] = e
		return true
	}
	count, err := t.await(ctx, subscriptions, events)
	if err == nil {
		memory.WriteUint32Le(result, uint32(count))
	}
	stack[0] = errnoOf(err)
	return true
}

// subscriptions reads what a guest waits for, and reports whether some of it is the table's.
func (t *Table) subscriptions(in []byte) (all []subscription, ours bool, e errno) {
	now := time.Now()
	for ; len(in) > 0; in = in[bytesOfSubscription:] {
		s := subscription{user: [8]byte(in), event: in[8]}
		switch s.event {
		case eventClock:
			if binary.LittleEndian.Uint16(in[40:]) != 0 {
				e = notSupported // an absolute time, as for the engine
			}
			s.due = now.Add(time.Duration(min(binary.LittleEndian.Uint64(in[24:]), math.MaxInt64/2)))
		case eventRead, eventWrite:
			s.handle, s.ours = t.find(int32(binary.LittleEndian.Uint32(in[16:])))
			ours = ours || s.ours
		default:
			e = invalid
		}
		all = append(all, s)
	}
	return all, ours, e
}

// await waits until something of it has happened, writes what has, and returns how much
// that is.
func (t *Table) await(ctx context.Context, all []subscription, out []byte) (int, error) {
	idle := time.Now().Add(t.idleAfter)
	for {
		meter.Check(ctx)
		count, err := t.happened(all, out)
		if count > 0 || err != nil {
			return count, err
		}
		if t.idle != nil && !time.Now().Before(idle) {
			t.idle()
			t.idle = nil
		}
		var waited []interest
		due := never
		for _, s := range all {
			switch {
			case s.event == eventClock:
				due = earlier(due, s.due)
			case s.handle != nil && !t.held(s.handle):
				waited = append(waited, interest{s.handle, s.events()})
			}
		}
		if t.idle != nil {
			due = earlier(due, idle)
		}
		if t.open < maxConnections && t.full() {
			due = earlier(due, time.Now().Add(othersTick))
		}
		if err := t.waiter.wait(ctx, waited, due); err != nil {
			return 0, err
		}
	}
}

// earlier returns the earlier of two deadlines.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// held reports whether a handle has nothing for the guest for now, whatever there is: its
// connections wait while it has as many as it may.
func (t *Table) held(h *handle) bool { return h.kind == listener && t.full() }

// happened writes an event for each subscription that has come true.
func (t *Table) happened(all []subscription, out []byte) (count int, err error) {
	asked := make([]unix.PollFd, len(all))
	for i, s := range all {
		asked[i].Fd = -1 // which is passed over
		if s.handle != nil && !t.held(s.handle) {
			asked[i] = unix.PollFd{Fd: int32(s.handle.fd), Events: s.events()}
		}
	}
	if _, err := unix.Poll(asked, 0); err != nil && !errors.Is(err, unix.EINTR) {
		return 0, err
	}
	now := time.Now()
	for i, s := range all {
		var e errno
		switch {
		case s.event == eventClock:
			if now.Before(s.due) {
				continue
			}
		case s.ours && s.handle == nil:
			e = badDescriptor
		case s.ours && asked[i].Revents == 0:
			continue
		}
		writeEvent(out[count*bytesOfEvent:][:bytesOfEvent], &s, e, asked[i].Revents)
		count++
	}
	return count, nil
}

func writeEvent(out []byte, s *subscription, e errno, happened int16) {
	clear(out)
	copy(out, s.user[:])
	binary.LittleEndian.PutUint16(out[8:], uint16(e))
	out[10] = s.event
	if s.event != eventClock {
		binary.LittleEndian.PutUint64(out[16:], 1) // byte, at least
	}
	if happened&unix.POLLHUP != 0 {
		out[24] = flagHangup
	}
}
