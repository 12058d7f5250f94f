package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/structs"
)

// follower hears of the ends of all workloads on one connection, so that a wait costs neither a
// connection nor, for what it has started, a request of its own. It is safe for concurrent use.
type follower struct {
	cancel context.CancelFunc
	lost   chan struct{} // closed when nothing more is heard

	mu   sync.Mutex
	byID map[string]*ending // of what was started or asked for, until it is destroyed
	runs map[uint64]*ending // of what runs, also when it is being destroyed
	// beside are the IDs of those that were started beside one, which are destroyed with it.
	beside map[string][]string
}

// ending is what is known of a workload's end.
type ending struct {
	id    string
	known chan struct{} // closed when the rest does not change any more
	again bool          // it is not known by this: ask again
	exit  *structs.ExitResult
	run   uint64  // 0: not known yet
	early []ended // what was heard before that
}

// expect returns what is to be heard of a workload, and whether nobody has expected it before, who
// calls found or forget then.
func (f *follower) expect(id string) (_ *ending, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.byID[id]; e != nil {
		return e, false
	}
	e := &ending{id: id, known: make(chan struct{})}
	f.byID[id] = e
	return e, true
}

// found notes which of the runs that had its ID a workload is.
func (f *follower) found(e *ending, is found) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.again { // it was destroyed meanwhile
		return
	}
	e.run, f.runs[is.Run] = is.Run, e
	for _, one := range e.early {
		f.heardLocked(one)
	}
	if e.early = nil; is.Ended != nil {
		f.heardLocked(*is.Ended)
	}
}

// heard notes how a workload ended.
func (f *follower) heard(one ended) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heardLocked(one)
}

func (f *follower) heardLocked(one ended) {
	if e := f.runs[one.Run]; e != nil && e.id == one.ID { // another supervisor may count from one, too
		delete(f.runs, one.Run)
		e.exit = one.Exit
		close(e.known)
	} else if e := f.byID[one.ID]; e != nil && e.run == 0 {
		e.early = append(e.early, one)
	}
}

// forget forgets a workload that is destroyed, and those beside it. Who waits for one hears how it ended,
// or asks again.
func (f *follower) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range append(f.beside[id], id) {
		if e := f.byID[one]; e != nil {
			f.dropLocked(e)
		}
	}
	delete(f.beside, id)
}

// drop forgets what was not found to be there.
func (f *follower) drop(e *ending) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byID[e.id] == e {
		f.dropLocked(e)
	}
}

func (f *follower) dropLocked(e *ending) {
	if e.run == 0 {
		e.again = true
		close(e.known)
	}
	delete(f.byID, e.id)
}

// startedBeside notes that a workload is destroyed with another.
func (f *follower) startedBeside(id, other string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beside[other] = append(f.beside[other], id)
}

// read reads what is told, until the connection ends.
func (f *follower) read(resp *http.Response) error {
	defer resp.Body.Close()
	for lines := json.NewDecoder(resp.Body); ; {
		var one ended
		if err := lines.Decode(&one); err != nil {
			return err
		}
		f.heard(one)
	}
}

// follow returns the follower, which it begins where there is none. UNIMPLEMENTED: the supervisor is
// of an earlier version.
func (c *Client) follow(ctx context.Context) (*follower, error) {
	if f := c.following(); f != nil {
		return f, nil
	}
	if err := c.handshake(ctx); err != nil {
		return nil, err
	}
	select {
	case c.beginning <- struct{}{}:
		defer func() { <-c.beginning }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if f := c.following(); f != nil { // by the call that this one waited for
		return f, nil
	}
	return c.beginFollowing(ctx)
}

// following is the follower; nil: there is none.
func (c *Client) following() *follower {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.follower == nil || wake.IsClosed(c.follower.lost) {
		return nil
	}
	return c.follower
}

func (c *Client) beginFollowing(ctx context.Context) (*follower, error) { //nolint:contextcheck // what it begins outlives it
	streams, cancel := context.WithCancel(context.Background())
	f := &follower{cancel: cancel, lost: make(chan struct{}), byID: map[string]*ending{}, runs: map[uint64]*ending{}, beside: map[string][]string{}}
	leaving := context.AfterFunc(ctx, cancel)
	defer leaving()
	resp, err := c.open(streams, opEnds, []byte("{}")) //nolint:contextcheck // likewise
	if err != nil {
		cancel()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		cancel()
		_ = resp.Body.Close() // nothing was read
		return nil, errClosed
	}
	c.follower = f
	c.reading.Go(func() {
		defer cancel()
		defer close(f.lost)
		_ = c.lost(streams, f.read(resp)) // the next call finds out more
	})
	return f, nil
}

// errClosed: the client was closed.
var errClosed = errors.New("the agent has let go of its supervisor")

// Wait implements [workload.Runtime].
func (c *Client) Wait(ctx context.Context, id string) (*structs.ExitResult, error) {
	for failed := 0; ; {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		f, err := c.follow(ctx)
		switch abi.CodeOf(err) {
		case 0:
		case abi.Unimplemented:
			return c.waitAlone(ctx, id)
		case abi.Unavailable:
			if failed++; failed < maxWaitTries && ctx.Err() == nil {
				continue
			}
			return nil, err
		default:
			return nil, err
		}
		e, first := f.expect(id)
		if first {
			var is found
			if err := c.ask(ctx, opResult, &request{ID: id}, &is); err != nil {
				f.drop(e)
				return nil, err
			}
			f.found(e, is)
		}
		select {
		case <-e.known:
		case <-f.lost:
			continue
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		switch {
		case e.again:
		case e.exit == nil:
			return nil, notFound(id)
		default:
			exit := *e.exit
			return &exit, nil
		}
	}
}

// maxWaitTries is how many supervisors a wait may see end before one answers.
const maxWaitTries = 2

// waitAlone waits as the first supervisors answer: with a connection.
func (c *Client) waitAlone(ctx context.Context, id string) (*structs.ExitResult, error) {
	var exit structs.ExitResult
	if err := c.ask(ctx, opWait, &request{ID: id}, &exit); err != nil {
		return nil, err
	}
	return &exit, nil
}
