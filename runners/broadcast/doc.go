// Package broadcast sends what an allocation has become to all listeners. A
// listener may miss versions but always gets the newest last, and no listener can
// hold up the sender or another listener.
//
// It knows nothing of runners. Start reading at [Broadcaster].
package broadcast
