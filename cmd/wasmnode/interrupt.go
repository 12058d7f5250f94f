package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// errInterrupted is why a command was ended by the person who runs it.
var errInterrupted = errors.New("interrupted: nothing was changed")

// interruptible returns a context that an interrupt ends, so that a command can clean up. A
// second interrupt ends the command.
func interruptible() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { signal.Stop(signals) })
	go func() {
		select {
		case <-signals:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// orInterrupted is an error, or that it was interrupted where that is why.
func orInterrupted(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		return errInterrupted
	}
	return err
}
