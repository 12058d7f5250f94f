package sandbox

import (
	"context"
	"io"
	"time"

	"github.com/wasmnode/wasmnode/sandbox/descriptor"
	"github.com/wasmnode/wasmnode/sandbox/meter"
)

// Guest is what an instance shares with who made it: its memory, and whether its call is
// over, for what the guest uses and what has no context of its calls, such as its files.
// The zero value is ready, for one instance; [WithGuest] hands it over.
type Guest struct {
	Memory Memory
	// Budget is what it uses memory and time of; nil: nothing is counted.
	Budget *Budget
	// Takes is asked before its memory becomes so large, in bytes, and told when that is given back,
	// by 0; nil: nobody is. With false it does not.
	Takes func(size uint64) bool
	// Share is its share of the processor; nil: that of its budget, or one of its own.
	Share *Share
	// Descriptors are those that it has besides files; nil: none. Who made them closes them.
	Descriptors *descriptor.Table
	// Exempt: the next calls go on when the budget has no time left, which they use too.
	Exempt bool
	// Random is what it draws random numbers from; nil: the system's. With one of its own no
	// snapshot is taken of it.
	Random io.Reader
	// Asleep, if it is not nil, is told how long it wants to sleep, and returns how long it does.
	Asleep func(want time.Duration) time.Duration

	entered context.Context // of the call in progress; nil: there is none
}

// runner is whom its turns are given to.
func (g *Guest) runner() *runner {
	switch {
	case g.Share != nil:
		return &g.Share.runner
	case g.Budget != nil:
		return &g.Budget.runner
	}
	return &runner{}
}

// Done is closed when the call in progress is over; nil: there is none. It is for what
// runs in that call.
func (g *Guest) Done() <-chan struct{} {
	if g.entered == nil {
		return nil
	}
	return g.entered.Done()
}

// Over reports whether the call in progress is over, as [Guest.Done] tells.
func (g *Guest) Over() bool { return g.entered != nil && g.entered.Err() != nil }

type guestKey struct{}

// WithGuest has [Module.Instantiate] and [Snapshot.Instantiate] use this.
func WithGuest(ctx context.Context, g *Guest) context.Context {
	return context.WithValue(ctx, guestKey{}, g)
}

// guestOf returns what the maker of an instance handed over.
func guestOf(ctx context.Context) *Guest {
	if g, ok := ctx.Value(guestKey{}).(*Guest); ok {
		return g
	}
	return &Guest{}
}

// randomPiece is how many random bytes are drawn between two looks at the clock: the
// system makes them in a tenth of a millisecond.
const randomPiece = 64 << 10

// clockedRandom is a source of random numbers that ends the guest when its call is over:
// one call can ask for the whole memory.
type clockedRandom struct {
	guest  *Guest
	source io.Reader
}

// Read implements [io.Reader].
func (r clockedRandom) Read(b []byte) (total int, err error) {
	for total < len(b) && err == nil {
		meter.Check(r.guest.entered)
		var n int
		n, err = r.source.Read(b[total:min(len(b), total+randomPiece)])
		total += n
	}
	return total, err
}
