package meter

import (
	"context"
	"time"
)

// Governor decides whether and when a guest goes on. It is called on the guest's goroutine.
type Governor interface {
	// Ran is told how long the guest has run since it was last told, every fifty
	// microseconds or so, and returns when the guest may go on. Its error ends the guest.
	Ran(ctx context.Context, d time.Duration) error
	// Pause is told that the guest begins to wait for the host. Resume returns when it may
	// go on, or the context has ended.
	Pause()
	Resume(ctx context.Context)
	// Left is told that the call has ended, and how long the guest has run since it was
	// last told.
	Left(d time.Duration)
}

// ungoverned lets a guest go on.
type ungoverned struct{}

func (ungoverned) Ran(context.Context, time.Duration) error { return nil }
func (ungoverned) Pause()                                   {}
func (ungoverned) Resume(context.Context)                   {}
func (ungoverned) Left(time.Duration)                       {}
