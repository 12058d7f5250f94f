package clustertest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/recorded"
)

// proxy stands between a node and a server, and spoils what they say to each other.
type proxy struct {
	listener net.Listener
	to       string
	tap      *recorded.Tap // of what it passes on; nil: nobody listens
	running  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool // both sides of each connection
	mood   mood
	calm   chan struct{} // closed when the mood is another
}

// mood is what a proxy does with what it gets. The zero value: it passes it on.
type mood struct {
	refuse bool          // ends new connections at once
	stall  bool          // takes, and passes nothing on, until the mood is another
	delay  time.Duration // before each piece
	halve  bool          // passes half of the next piece on, and ends the connection
}

// startProxy listens; it is told later where to.
func startProxy(t *testing.T) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, conns: map[net.Conn]bool{}, calm: make(chan struct{})}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// leads says where to.
func (p *proxy) leads(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.be(mood{})
	p.cut()
	p.running.Wait()
}

// be changes the mood.
func (p *proxy) be(m mood) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mood = m
	close(p.calm)
	p.calm = make(chan struct{})
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

func (p *proxy) now() (mood, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mood, p.calm
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		if m, _ := p.now(); m.refuse {
			_ = c.Close()
			continue
		}
		s, err := net.DialTimeout("tcp", p.target(), 5*time.Second)
		if err != nil {
			_ = c.Close()
			continue
		}
		if p.keep(c, s) {
			node, server := io.Discard, io.Discard
			if p.tap != nil {
				node, server = p.tap.Connection()
			}
			p.running.Go(func() { p.pass(c, s, node) })
			p.running.Go(func() { p.pass(s, c, server) })
		}
	}
}

func (p *proxy) target() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.to
}

// keep remembers both sides of a connection, or ends them where all is over.
func (p *proxy) keep(sides ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range sides {
		if p.closed {
			_ = c.Close()
		} else {
			p.conns[c] = true
		}
	}
	return !p.closed
}

// pass passes on what one side says, and lets it be heard, until one of both has ended.
func (p *proxy) pass(from, to net.Conn, heard io.Writer) {
	defer func() {
		_, _ = from.Close(), to.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, from)
		delete(p.conns, to)
	}()
	for piece := make([]byte, 16<<10); ; {
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		_, _ = heard.Write(piece[:n]) // into memory
		m, changed := p.now()
		for m.stall {
			<-changed
			m, changed = p.now()
		}
		time.Sleep(m.delay)
		if m.halve {
			_, _ = to.Write(piece[:n/2])
			return
		}
		if _, err := to.Write(piece[:n]); err != nil {
			return
		}
	}
}
