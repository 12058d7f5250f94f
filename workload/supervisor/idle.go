package supervisor

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// idle notices when a server has neither clients nor workloads for a while. A client
// keeps a connection open for as long as it runs.
type idle struct {
	after   time.Duration
	expired chan struct{}

	mu          sync.Mutex
	connections map[net.Conn]bool
	running     int
	timer       *time.Timer
}

func newIdle(after time.Duration) *idle {
	i := &idle{after: after, expired: make(chan struct{}), connections: map[net.Conn]bool{}}
	i.timer = time.AfterFunc(after, i.expire)
	return i
}

func (i *idle) expire() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.running == 0 && len(i.connections) == 0 && !i.hasExpired() {
		close(i.expired)
	}
}

func (i *idle) hasExpired() bool {
	select {
	case <-i.expired:
		return true
	default:
		return false
	}
}

// connection is called at every change of a connection's state.
func (i *idle) connection(c net.Conn, state http.ConnState) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch state {
	case http.StateNew:
		i.connections[c] = true
	case http.StateClosed, http.StateHijacked:
		delete(i.connections, c)
	}
	i.timer.Reset(i.after)
}

func (i *idle) began() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.running++
}

func (i *idle) ended() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.running--
	i.timer.Reset(i.after)
}
