package task

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// abandonGrace is what a driver gets to return after its call's context is done, so
// that what it did is known. After that the call is left behind.
const abandonGrace = time.Second

// call runs a driver's operation, which promises to heed its context and is not
// believed: once ctx is done and the grace has passed, call returns ctx's cause all the
// same. What a call that was left behind brings in the end goes to late.
func call[T any](ctx context.Context, op string, fn func(context.Context) (T, error), late func(T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	var (
		mu   sync.Mutex
		left bool
	)
	done := make(chan outcome, 1)
	go func() {
		v, err := guard(ctx, op, fn)
		mu.Lock()
		defer mu.Unlock()
		if !left {
			done <- outcome{v, err}
		} else if late != nil {
			go late(v, err)
		}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(abandonGrace)
	defer grace.Stop()
	select {
	case o := <-done:
		return o.value, o.err
	case <-grace.C:
	}
	mu.Lock()
	defer mu.Unlock()
	select {
	case o := <-done:
		return o.value, o.err
	default:
		left = true
		var none T
		return none, fmt.Errorf("%s: the driver does not return: %w", op, context.Cause(ctx))
	}
}

// guard makes an error of a driver that panics: it costs its own call only.
func guard[T any](ctx context.Context, op string, fn func(context.Context) (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: the driver panicked: %v", op, p)
		}
	}()
	return fn(ctx)
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

// The back-off of tries to reach a driver (Nomad's lazy handle): 0.25, 1, 4, 5, 5 s.
const (
	firstRetry = 250 * time.Millisecond
	maxRetry   = 5 * time.Second
	retries    = 5
)

// backoff is the wait before try n, counted from 0.
func backoff(n int) time.Duration {
	d := firstRetry
	for range n {
		d = min(4*d, maxRetry)
	}
	return d
}
