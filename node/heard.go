package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/structs"
)

// heard is when a control plane that wants heartbeats took one last. While the agent runs it goes by a clock
// that nobody sets; across a restart by the time of change of a file.
type heard struct {
	file   string // empty: none
	logger hclog.Logger
	wake   wake.Signal // it was heard, or there are more allocations
	before time.Duration
	mu     sync.Mutex
	last   time.Time
	counts bool // the control plane wants heartbeats, as far as is known
}

// newHeard reads when an earlier agent has heard the control plane: before is how long ago
// that was. When that is not known, it is now.
func newHeard(file string, logger hclog.Logger) *heard {
	h := &heard{file: file, logger: logger, wake: wake.New(), counts: file != ""}
	if file != "" {
		switch info, err := os.Stat(file); {
		case err == nil:
			h.before = max(time.Since(info.ModTime()), 0)
		case !errors.Is(err, fs.ErrNotExist):
			logger.Warn("when the control plane was heard last is not known", "error", err)
		}
	}
	h.last = time.Now().Add(-h.before)
	return h
}

// now records that the control plane was heard.
func (h *heard) now() {
	h.mu.Lock()
	h.last, h.counts = time.Now(), true
	h.mu.Unlock()
	h.wake.Set()
	if h.file == "" {
		return
	}
	// It need not survive the machine: what is older stops tasks, which a machine that was off has not.
	err := os.Chtimes(h.file, time.Time{}, time.Now())
	if errors.Is(err, fs.ErrNotExist) {
		err = os.WriteFile(h.file, nil, 0o600)
	}
	if err != nil {
		h.logger.Warn("when the control plane was heard last is not kept", "error", err)
	}
}

// since is how long ago it was heard; 0 for one that wants no heartbeats.
func (h *heard) since() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.counts {
		return 0
	}
	return time.Since(h.last)
}

// heardLoop stops allocations that are not to run for longer without the control plane.
func (n *Node) heardLoop(ctx context.Context) {
	for {
		var due <-chan time.Time
		if left, any := n.stopAllUnheard(); any {
			due = time.After(left)
		}
		select {
		case <-due:
		case <-n.heard.wake.C():
		case <-ctx.Done():
			return
		}
	}
}

// stopAllUnheard stops those whose time is over, and returns when the next one's is.
func (n *Node) stopAllUnheard() (left time.Duration, any bool) {
	n.mu.Lock()
	var limited []*alloc.Runner
	for _, e := range n.runners {
		if stopAfter(e.runner.Alloc()) > 0 && e.ended.IsZero() {
			limited = append(limited, e.runner)
		}
	}
	n.mu.Unlock()
	for _, r := range limited {
		since := n.heard.since()
		if n.stopUnheard(r, since) {
			continue
		}
		if one := stopAfter(r.Alloc()) - since; !any || one < left {
			left, any = one, true
		}
	}
	return left, any
}

// stopUnheard stops an allocation when the control plane was not heard for as long as its group
// says.
func (n *Node) stopUnheard(r *alloc.Runner, since time.Duration) (stopped bool) {
	a := r.Alloc()
	limit := stopAfter(a)
	if limit <= 0 || since < limit {
		return false
	}
	if r.AllocState().ClientStatus.Terminal() {
		return true
	}
	if !r.Stop(fmt.Sprintf("no server was heard for %s (stop_on_client_after)", limit)) {
		return true // before
	}
	n.logger.Warn("stopping an allocation: no server was heard for as long as its group lets it run on", "alloc_id", a.ID, "stop_on_client_after", limit)
	return true
}

// stopAfter is how long a group's tasks run on without the control plane; 0: for ever.
func stopAfter(a *structs.Allocation) time.Duration {
	g := a.Group()
	switch {
	case g == nil:
		return 0
	case g.Disconnect != nil && g.Disconnect.StopOnClientAfter != nil:
		return *g.Disconnect.StopOnClientAfter
	}
	return structs.Deref(g.StopAfterClientDisconnect) //nolint:staticcheck // servers before Nomad 1.8 know nothing else
}
