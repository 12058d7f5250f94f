package stream

import (
	"runtime"
	"time"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// waiter is a goroutine that waits for an event.
type waiter struct {
	stream  *Stream
	event   uint32
	longest time.Duration
	holds   bool
	over    bool // it was asked for, or its stream is gone
}

// waiters are those of the instance, which has one thread: nothing guards them.
var waiters []*waiter

// poll reports whether an event holds within a time. Goroutines that can run, run before: the
// host is asked for all that wait when they have come to wait.
func poll(s *Stream, event uint32, longest time.Duration) (bool, error) {
	w := &waiter{stream: s, event: event, longest: longest}
	waiters = append(waiters, w)
	runtime.Gosched()
	if !w.over {
		askForAll()
	}
	return w.holds, nil
}

// askForAll asks the host for all that wait, for as long as the least patient of them waits.
func askForAll() {
	longest := longestWait
	asked := map[uint32]*wasmnodev1.StreamPollEntry{}
	var entries []*wasmnodev1.StreamPollEntry
	for _, w := range waiters {
		longest = min(longest, w.longest)
		e := asked[w.stream.id]
		if e == nil {
			e = &wasmnodev1.StreamPollEntry{Stream: w.stream.id}
			asked[w.stream.id], entries = e, append(entries, e)
		}
		e.Events |= w.event
	}
	// An error is that of a stream that was closed: who waits for it will see.
	hold, err := ask(waiters[0].stream.ctx, entries, longest)
	for _, e := range entries {
		e.Events = 0
	}
	for _, e := range hold {
		asked[e.Stream].Events = e.Events
	}
	for _, w := range waiters {
		w.over = true
		w.holds = err != nil || asked[w.stream.id].Events&w.event != 0
	}
	waiters = waiters[:0]
}
