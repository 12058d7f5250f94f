package clientapi

import (
	"context"
	"time"
)

// heartbeat is how often a stream that has nothing to send sends one, as in Nomad, so
// that a client that is gone is noticed.
const heartbeat = time.Second

// AtIntervals calls beat once in each interval until ctx is done or the function that it
// returns is called, which returns when no call of beat is under way any more.
func AtIntervals(ctx context.Context, interval time.Duration, beat func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				beat()
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
