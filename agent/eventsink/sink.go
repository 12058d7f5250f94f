package eventsink

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/structs"
)

// Source is the control plane, as far as sinks need it.
type Source interface {
	EventsFrom(index uint64) (place uint64)
	NextEvents(ctx context.Context, place uint64) (*structs.ChangeBatch, error)
	ChangesSince(index uint64) structs.Changes
}

// Receiver takes lines as /v1/event/stream has them, one at a time.
type Receiver interface {
	// Deliver returns once the receiver has a line, or why it has not: it is told it again later,
	// unless the error is a [Refused]. The ID is the same for the same line, and of no other.
	Deliver(ctx context.Context, id string, line []byte) error
	// Sync returns once what was delivered outlasts a power cut, as far as the receiver is of this machine.
	Sync() error
	Close() error
}

// Refused is the error of a receiver that will not have a line, however often it is told.
type Refused struct{ Err error }

// Error implements error.
func (r *Refused) Error() string { return r.Err.Error() }

// Unwrap returns why.
func (r *Refused) Unwrap() error { return r.Err }

// RetryAfter is the error of a receiver that says when it will have a line.
type RetryAfter struct {
	Err  error
	Wait time.Duration
}

// Error implements error.
func (r *RetryAfter) Error() string { return r.Err.Error() }

// Unwrap returns why.
func (r *RetryAfter) Unwrap() error { return r.Err }

// The bounds of a sink.
const (
	// lineEvents is how many events there are in a line at most, but for one that has more at a
	// single index.
	lineEvents = 64
	// lineBytes is how long a line gets at most, but for one that is longer at a single index.
	lineBytes = 1 << 20
	// firstRetry and longestRetry are how long a sink waits after a try that failed; half as long
	// to one and a half times as long, so that many nodes do not ask at once.
	firstRetry, longestRetry = time.Second, time.Minute
	// saveInterval is how often it is kept how far the receiver was told.
	saveInterval = time.Second
)

// Config is what a sink is made of.
type Config struct {
	Name   string
	Source Source
	// Line renders batches; nil: there is nothing to tell of them.
	Line     func([]*structs.ChangeBatch) ([]byte, error)
	Receiver Receiver
	// NodeID begins the lines' IDs.
	NodeID string
	// Progress is the file that says how far the receiver was told.
	Progress string
	// Report is told when the receiver begins to fail, with the reason, and with nil when it takes
	// lines again.
	Report  func(error)
	Metrics *Metrics
	Logger  hclog.Logger
	// FirstRetry is how long a sink waits at first after a try that failed; 0: a second.
	FirstRetry time.Duration
}

// Sink tells one receiver what happens.
type Sink struct {
	Config
	at    uint64 // the index up to which the receiver was told
	saved time.Time
	// failed: keeping how far the receiver was told did not work the last time.
	failed bool
}

// New makes a sink.
func New(c Config) *Sink {
	c.Metrics.begin(c.Name)
	return &Sink{Config: c}
}

// Run tells the receiver what happens until ctx is done or the control plane closes. A sink that
// has told before goes on where it was; a new one begins with what happens next.
func (s *Sink) Run(ctx context.Context) { s.run(ctx, s.begin()) }

func (s *Sink) run(ctx context.Context, changes structs.Changes) {
	defer s.Receiver.Close() //nolint:errcheck // what it has was delivered
	defer s.save()
	for ctx.Err() == nil {
		if s.catchUp(ctx, changes) != nil {
			return
		}
		if err := s.follow(ctx, changes.Next); !errors.Is(err, structs.ErrEventsLost) {
			return
		}
		changes = s.Source.ChangesSince(s.at)
	}
}

// begin is what has changed since the receiver was told last, by this agent or another.
func (s *Sink) begin() structs.Changes {
	now := s.Source.ChangesSince(math.MaxUint64)
	at, err := readProgress(s.Progress)
	switch {
	case err != nil:
		s.Logger.Warn("how far a sink was told of events cannot be read: it is told what happens from now on", "error", err)
	case at == nil: // it is new
	case *at > now.Index:
		s.Logger.Warn("a sink was told of more events than the control plane knows, which was restored: it is told what happens from now on", "told", *at, "known", now.Index)
	default:
		s.at = *at
		changes := s.Source.ChangesSince(s.at)
		if len(changes.Batches) > 0 {
			s.Logger.Info("a sink is told what has changed since it was told last, as it is now: not what was in between, nor what is no more", "after_index", s.at)
		}
		return changes
	}
	s.at = now.Index
	s.save() // what happens before the first is delivered is not lost by a restart
	return now
}

// catchUp tells what has changed in parts.
func (s *Sink) catchUp(ctx context.Context, changes structs.Changes) error {
	list := changes.Batches
	for len(list) > 0 {
		n := part(list)
		if err := s.tell(ctx, list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	s.at = max(s.at, changes.Index)
	return nil
}

// part is how many batches from the first go into one line.
func part(list []*structs.ChangeBatch) (n int) {
	events := 0
	for n < len(list) && (n == 0 || events+len(list[n].Events) <= lineEvents) {
		events += len(list[n].Events)
		n++
	}
	return n
}

// follow tells what happens from a place on. The error is [structs.ErrEventsLost] where the next
// is kept no more.
func (s *Sink) follow(ctx context.Context, place uint64) error {
	for {
		list, err := s.wait(ctx, place)
		if errors.Is(err, structs.ErrEventsLost) {
			lost := s.Source.EventsFrom(0) - place
			s.Metrics.lost.WithLabelValues(s.Name).Add(float64(lost))
			s.Logger.Warn("a sink is told of events so slowly that the oldest are kept no more: it is told what has changed as it is now, and not what was in between", "after_index", s.at, "changes", lost)
		}
		if err != nil {
			return err
		}
		if err := s.tell(ctx, list); err != nil {
			return err
		}
		place += uint64(len(list))
	}
}

// wait returns the batch at a place once there is one, and those after it that there are already
// and that go into one line with it.
func (s *Sink) wait(ctx context.Context, place uint64) (list []*structs.ChangeBatch, err error) {
	first, err := s.Source.NextEvents(ctx, place)
	if err != nil {
		return nil, err
	}
	list = append(list, first)
	without, cancel := context.WithCancel(ctx)
	cancel() // with which what there is is returned, and nothing waited for
	for len(list) == part(list) {
		next, err := s.Source.NextEvents(without, place+uint64(len(list)))
		if err != nil {
			return list, nil //nolint:nilerr // whoever waits for it is told
		}
		list = append(list, next)
	}
	return list[:len(list)-1], nil
}

// tell delivers batches as one line, however long it takes. The error is ctx's.
func (s *Sink) tell(ctx context.Context, list []*structs.ChangeBatch) error {
	last := list[len(list)-1].Index
	line, err := s.Line(list)
	if (err != nil || len(line) > lineBytes) && len(list) > 1 {
		half := len(list) / 2
		if err := s.tell(ctx, list[:half]); err != nil {
			return err
		}
		return s.tell(ctx, list[half:])
	}
	if err != nil {
		s.Metrics.lost.WithLabelValues(s.Name).Inc()
		s.Logger.Error("an event cannot be rendered for a sink", "index", last, "error", err)
	}
	if line != nil {
		if err := s.deliver(ctx, s.id(last, line), line, len(list)); err != nil {
			return err
		}
	}
	s.at = last
	if time.Since(s.saved) >= saveInterval {
		s.save()
	}
	return nil
}

// id is the ID of a line. An index alone is none: a control plane that was restored gives some
// again, and after a restart other batches can be in one line.
func (s *Sink) id(index uint64, line []byte) string {
	sum := sha256.Sum256(line)
	return fmt.Sprintf("%s-%d-%x", s.NodeID, index, sum[:8])
}

// deliver delivers a line of n changes. The error is ctx's.
func (s *Sink) deliver(ctx context.Context, id string, line []byte, n int) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval, wait.Multiplier = firstRetry, longestRetry, 2
	if s.FirstRetry > 0 {
		wait.InitialInterval = s.FirstRetry
	}
	for began, tries := time.Now(), 1; ; tries++ {
		err := s.Receiver.Deliver(ctx, id, line)
		var refused *Refused
		switch {
		case errors.As(err, &refused):
			s.Metrics.lost.WithLabelValues(s.Name).Add(float64(n))
			s.Logger.Error("a sink does not take events: they are not told again", "id", id, "error", err)
			err = nil
		case err == nil: // also where the agent ends meanwhile
			s.Metrics.delivered.WithLabelValues(s.Name).Inc()
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if err == nil {
			s.works(tries, time.Since(began))
			return nil
		}
		s.fails(tries, err)
		pause := wait.NextBackOff()
		if later := (*RetryAfter)(nil); errors.As(err, &later) {
			pause = min(max(pause, later.Wait), longestRetry)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Sink) works(tries int, took time.Duration) {
	if tries > 1 {
		s.Logger.Info("events are delivered to a sink again", "tries", tries, "after", took.Round(time.Millisecond))
		s.Report(nil)
	}
	s.Metrics.failing.WithLabelValues(s.Name).Set(0)
}

func (s *Sink) fails(tries int, err error) {
	s.Metrics.failures.WithLabelValues(s.Name).Inc()
	s.Metrics.failing.WithLabelValues(s.Name).Set(1)
	if tries == 1 {
		s.Logger.Warn("events cannot be delivered to a sink: it is tried until it works", "error", err)
	}
	s.Report(err)
}

// save keeps how far the receiver was told. What is not kept is told twice after a restart.
func (s *Sink) save() {
	s.saved = time.Now()
	err := s.Receiver.Sync()
	if err == nil {
		err = writeProgress(s.Progress, s.at)
	}
	if err != nil && !s.failed {
		s.Logger.Warn("how far a sink was told of events cannot be kept: after a restart it is told of some twice", "error", err)
	}
	s.failed = err != nil
}
