package supervisor

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"

	"github.com/wasmnode/wasmnode/structs"
)

// ended is how a workload ended.
type ended struct {
	Run  uint64 // see [record]
	ID   string
	Exit *structs.ExitResult `json:",omitempty"` // nil: that is not known, and will not be
}

// found is a workload that was started, or asked for.
type found struct {
	Run   uint64 // see [record]; 0: of an earlier version, which tells of no ends
	Ended *ended `json:",omitempty"` // nil: it has not
}

// endings are the ends of workloads that one client is still to be told of: at most as many as there
// are workloads.
type endings struct {
	mu    sync.Mutex
	queue []ended
	more  chan struct{} // of capacity 1: the queue is not empty
}

func (e *endings) add(one ended) {
	e.mu.Lock()
	e.queue = append(e.queue, one)
	e.mu.Unlock()
	select {
	case e.more <- struct{}{}:
	default:
	}
}

// next returns those that there are, when there are some.
func (e *endings) next(ctx context.Context) ([]ended, error) {
	select {
	case <-e.more:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.queue
	e.queue = nil
	return all, nil
}

// tell tells whoever listens that a workload has ended, or did not start. The lock is held.
func (rs *records) tell(r *record) {
	for _, e := range rs.told {
		e.add(ended{r.run, r.id, r.exit})
	}
}

// listen returns what is told of each workload that ends from now on, until stop is called.
func (rs *records) listen() (e *endings, stop func()) {
	e = &endings{more: make(chan struct{}, 1)}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.told = append(rs.told, e)
	return e, func() {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		rs.told = slices.DeleteFunc(rs.told, func(other *endings) bool { return other == e })
	}
}

// ends answers with a line for each workload whose result is there from now on. Its header tells the
// client that it listens.
func (s *Server) ends(w http.ResponseWriter, r *http.Request) {
	told, stop := s.records.listen()
	defer stop()
	out, lines := http.NewResponseController(w), json.NewEncoder(w)
	for err := out.Flush(); err == nil; err = out.Flush() {
		all, err := told.next(r.Context())
		if err != nil {
			return
		}
		for _, one := range all {
			if err := lines.Encode(one); err != nil {
				return
			}
		}
	}
}

// result answers what a line told of a workload that has ended.
func (s *Server) result(_ context.Context, req *request) (any, error) {
	r := s.records.find(req.ID)
	if r == nil {
		return nil, notFound(req.ID)
	}
	return s.records.found(r), nil
}

func (rs *records) found(r *record) found {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r.state <= stateRunning {
		return found{Run: r.run}
	}
	return found{r.run, &ended{r.run, r.id, r.exit}}
}
