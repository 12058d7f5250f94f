package agent

import (
	"context"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/httpapi/access"
)

// taskConnections is how many connections a task may have to the API at once. More wait.
const taskConnections = 64

// taskLimits bounds what is served to all tasks together: they leave the operator the API's own
// bounds. A waiting connection costs 10 KiB.
func taskLimits() access.Limits {
	l := access.DefaultLimits()
	l.Reads, l.Bodies, l.Streams, l.Connections = 64, 16, 512, 1<<20 // each socket has its own bound
	return l
}

// taskAPI serves the API to tasks, as task.API. It begins with serve, and ends with stop.
type taskAPI struct {
	ready  chan struct{} // closed: server is there
	server *http.Server
	end    context.CancelFunc
}

func newTaskAPI() *taskAPI { return &taskAPI{ready: make(chan struct{})} }

// serve has the sockets of tasks be served, also those that were there before.
func (a *taskAPI) serve(handler http.Handler, logger hclog.Logger) {
	base, end := context.WithCancel(context.Background())
	a.end = end
	a.server = &http.Server{
		Handler:           handler,
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(logger.StandardWriter(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}), "", 0),
	}
	close(a.ready)
}

// ServeTask implements task.API.
func (a *taskAPI) ServeTask(l net.Listener) (stop func()) {
	own := &taskListener{Listener: l, free: make(chan struct{}, taskConnections), closed: make(chan struct{}), open: map[net.Conn]bool{}}
	served := make(chan struct{})
	go func() {
		defer close(served)
		select {
		case <-a.ready:
			_ = a.server.Serve(own) // it ends with its listener
		case <-own.closed:
		}
	}()
	return func() {
		own.closeAll()
		<-served
	}
}

// stop ends what is served. Sockets are closed with it.
func (a *taskAPI) stop() {
	a.end()
	_ = a.server.Close() // its listeners' errors: they are closed
}

// taskListener bounds the connections of a task, and ends them with its socket.
type taskListener struct {
	net.Listener
	free   chan struct{} // has one of each connection
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	open map[net.Conn]bool
	done bool
}

// Accept implements [net.Listener]. At the bound it waits for a connection to end: those who
// want another are in the socket's queue.
func (l *taskListener) Accept() (net.Conn, error) {
	select {
	case l.free <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err
	}
	conn := &taskConn{Conn: c, of: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		<-l.free
		_ = c.Close() // nobody has it
		return nil, net.ErrClosed
	}
	l.open[conn] = true
	return conn, nil
}

// Close implements [net.Listener].
func (l *taskListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// closeAll ends the connections that are open.
func (l *taskListener) closeAll() {
	_ = l.Close() // mostly again
	l.mu.Lock()
	l.done = true
	left := make([]net.Conn, 0, len(l.open))
	for c := range l.open {
		left = append(left, c)
	}
	l.mu.Unlock()
	for _, c := range left {
		_ = c.Close() // its client is gone, or will be told so
	}
}

// taskConn counts until it is closed.
type taskConn struct {
	net.Conn
	of   *taskListener
	once sync.Once
}

// Close implements [net.Conn].
func (c *taskConn) Close() error {
	c.once.Do(func() {
		c.of.mu.Lock()
		delete(c.of.open, c)
		c.of.mu.Unlock()
		<-c.of.free
	})
	return c.Conn.Close()
}
