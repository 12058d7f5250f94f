// Package wake has the signal that wakes one goroutine to look at shared state, and the
// look at a channel that wakes all by being closed. The
// state itself is kept elsewhere, under its own lock; the signal only indicates that there is
// something to see.
package wake

// Signal wakes the goroutine that receives from it. Any number of calls of Set before
// that goroutine looks are one wake-up. Copies are the same signal. The zero value is
// never set. Make others with [New].
type Signal struct{ c chan struct{} }

// New makes a signal that is not set. Its channel has a capacity of one: Set finds room
// or a wake-up that is still to be received, and needs nothing else of its caller.
func New() Signal { return Signal{make(chan struct{}, 1)} }

// Set wakes the receiver, now or when it receives next. It never blocks.
func (s Signal) Set() {
	select {
	case s.c <- struct{}{}:
	default:
	}
}

// C delivers the wake-ups. Receiving clears the signal, so the receiver looks at the
// state after it has received, never before.
func (s Signal) C() <-chan struct{} { return s.c }

// IsClosed reports whether c, a channel that is closed to wake all who receive from it
// and never sent to, is closed.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
