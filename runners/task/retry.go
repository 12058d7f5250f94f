package task

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// What is tried again, and until when. All of it is paced by [newBackoff], all of it but the
// recovery of a run whose driver is not there ends by itself, and what has failed in the end
// is left to the restart policy:
//
//	getting the driver by its name       for Limits.DriverWait, while it is not there and
//	                                     no plugin that may be it is being loaded
//	recovering a run of an earlier agent retries times, while the driver faults; without
//	                                     end, while it is not there: the run may go on
//	recovering a run whose wait failed   retries times, one less for each such failure
//	                                     since the last faultReset without one
//	recovering on a new driver version   retries times, while the error is recoverable;
//	                                     then the task stays with the old version
//	stopping, and waiting meanwhile      until the kill timeout and the first part of
//	                                     Limits.KillGrace are over; then the task is
//	                                     destroyed by force
//
// Starting a task is not tried again here, and nothing above is inside another but that
// a recovery gets its driver first.
const (
	firstRetry = 250 * time.Millisecond
	maxRetry   = 5 * time.Second
	retries    = 5
	// faultReset is how long a wait has to last for a driver's earlier faults at waiting
	// not to count any more.
	faultReset = time.Minute
	// recoverPause is between two tries to recover a run whose driver is not there.
	recoverPause = time.Second
	// freeLosses is how often, within lossInterval, a task may lose its run with what ran
	// it at no cost to its restart policy: it may be the task that takes that down.
	freeLosses   = 3
	lossInterval = 10 * time.Minute
)

// newBackoff paces the tries to reach a driver as Nomad's lazy handle does: 0.25, 1, 4,
// 5, 5 s.
func newBackoff() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: firstRetry, Multiplier: 4, MaxInterval: maxRetry}
}

// sleep waits for d and reports whether it did; ctx ends it early.
func sleep(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
