package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Home is where a supervisor is found: a directory, its lock, and its socket. It is safe for
// concurrent use.
type Home struct {
	dir  string
	mu   sync.Mutex
	lock *os.File
}

// NewHome returns the home of a supervisor that has that directory's lock, which is closed
// with it.
func NewHome(dir string, lock *os.File) *Home { return &Home{dir: dir, lock: lock} }

// Lock is the directory's lock as it is now.
func (h *Home) Lock() *os.File {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lock
}

// Close lets go of the lock.
func (h *Home) Close() error { return h.Lock().Close() }

// Return listens again where the socket is gone, be it alone or with the directory; nil: it is
// there, or what the directory was in is gone, too. Whoever looks for the supervisor would
// start another one, and the tasks a second time.
func (h *Home) Return() (net.Listener, error) {
	socket := Socket(h.dir)
	if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, dir := range []string{h.dir, Results(h.dir)} {
		switch err := os.Mkdir(dir, 0o700); {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil && !errors.Is(err, fs.ErrExist):
			return nil, err
		}
	}
	if err := h.relock(); err != nil {
		return nil, err
	}
	l, err := Listen(socket)
	if err != nil {
		return nil, err
	}
	return returned{l, socket}, nil
}

// relock takes the lock of a directory that is another one than it was.
func (h *Home) relock() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	has, err := h.lock.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Stat(filepath.Join(h.dir, lockName)); err == nil && os.SameFile(has, there) {
		return nil
	}
	lock, err := Lock(h.dir)
	if err != nil {
		return err
	}
	_ = h.lock.Close() // nobody can look at it
	h.lock = lock
	return nil
}

// returned is a listener whose socket goes with it, so that who serves next returns, too.
type returned struct {
	net.Listener
	socket string
}

// Close implements [net.Listener].
func (r returned) Close() error {
	err := os.Remove(r.socket)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, r.Listener.Close())
}

// lookInterval is how often a supervisor looks whether it can be found.
const lookInterval = time.Second

// stay has the server answer on its socket again whenever that was removed, until done.
func (s *Server) stay(done <-chan struct{}, web *http.Server) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	var serving sync.WaitGroup
	defer serving.Wait()
	for said := ""; ; {
		l, err := s.Return()
		switch {
		case err != nil && err.Error() != said:
			said = err.Error()
			s.Logger.Error("the supervisor's socket is gone and cannot be made anew, trying again: no agent finds its tasks", "error", err)
		case l != nil:
			said = ""
			s.Logger.Warn("the supervisor's socket was gone: it was made anew")
			serving.Go(func() { _ = web.Serve(ownersOnly{l}) }) // until the socket is gone again, or the server ends
		}
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}

// returnTime is how long a client waits for a supervisor that is there and has no socket.
const returnTime = 3 * lookInterval

// awaitReturn returns the answer of a supervisor that has the lock of the socket's directory,
// and does not answer yet. The error is that nobody has the lock, or that time is over.
func (c *Client) awaitReturn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, returnTime)
	defer cancel()
	for held(filepath.Dir(c.Socket)) {
		if _, err := c.hello(ctx); err == nil {
			return nil
		}
		select {
		case <-time.After(lookInterval / 10):
		case <-ctx.Done():
			return fmt.Errorf("a supervisor runs and does not answer: %w", ctx.Err())
		}
	}
	return errNobody
}

// errNobody: there is no supervisor.
var errNobody = errors.New("no supervisor has the directory")

// held reports whether a process has a directory's lock.
func held(dir string) bool {
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return false
	}
	defer f.Close() // and with it the lock, if nobody else has it
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}
