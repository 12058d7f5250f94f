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

// call runs a driver's operation, which should end with its context and may not: once
// ctx is done and the grace has passed, call returns ctx's cause all the same. What a call
// that was left behind brings in the end goes to late.
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
