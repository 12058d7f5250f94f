//go:build !wasip1

package stream

import (
	"time"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// poll reports whether an event holds within a time. Natively there are threads.
func poll(s *Stream, event uint32, longest time.Duration) (bool, error) {
	hold, err := ask(s.ctx, []*wasmnodev1.StreamPollEntry{{Stream: s.id, Events: event}}, longest)
	return len(hold) > 0, err
}
