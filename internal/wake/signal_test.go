package wake

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestManySetsAreOneWakeUp(t *testing.T) {
	s := New()
	for range 5 {
		s.Set()
	}
	<-s.C()
	select {
	case <-s.C():
		t.Fatal("a second wake-up")
	default:
	}
}

func TestTheZeroValueIsNeverSet(t *testing.T) {
	var s Signal
	s.Set()
	select {
	case <-s.C():
		t.Fatal("a wake-up")
	default:
	}
}

func TestNoChangeIsMissedDuringConcurrentSets(t *testing.T) {
	const setters, changes = 4, 1000
	s := New()
	var count atomic.Int64
	var all sync.WaitGroup
	for range setters {
		all.Go(func() {
			for range changes {
				count.Add(1)
				s.Set()
			}
		})
	}
	for count.Load() < setters*changes {
		<-s.C()
	}
	all.Wait()
}
