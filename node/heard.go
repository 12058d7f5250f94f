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
// that nobody sets; across a restart by the time of change of a file, in which is how long the registration
// lasted then.
type heard struct {
	file   string // empty: none
	logger hclog.Logger
	wake   wake.Signal // it was heard, or there are more allocations
	// before is how long no agent had heard it when this one began, as far as that is known.
	before time.Duration

	mu     sync.Mutex
	last   time.Time
	lasts  time.Duration // the registration: until then nothing is missed
	counts bool          // the control plane wants heartbeats, as far as is known
}

// newHeard reads when an earlier agent has heard the control plane. When that is not known, it
// is now.
func newHeard(file string, logger hclog.Logger) *heard {
	h := &heard{file: file, logger: logger, wake: wake.New(), counts: file != ""}
	if file != "" {
		switch info, err := os.Stat(file); {
		case err == nil:
			h.before = max(time.Since(info.ModTime()), 0)
			text, _ := os.ReadFile(file)
			h.lasts, _ = time.ParseDuration(string(text)) // of an agent that was killed over it, or a machine: 0
		case !errors.Is(err, fs.ErrNotExist):
			logger.Warn("when the control plane was heard last is not known", "error", err)
		}
	}
	h.last = time.Now().Add(-h.before)
	return h
}

// now records that the control plane was heard, and how long the registration lasts.
func (h *heard) now(lasts time.Duration) {
	h.mu.Lock()
	h.last, h.lasts, h.counts = time.Now(), lasts, true
	h.mu.Unlock()
	h.wake.Set()
	if h.file == "" {
		return
	}
	// It need not survive the machine: what is older stops tasks, which a machine that was off has not.
	if err := os.WriteFile(h.file, []byte(lasts.String()), 0o600); err != nil {
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

// atLeast is how long it may be silent without having missed anything.
func (h *heard) atLeast() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lasts
}

// heardLoop stops allocations that are not to run for longer without the control plane.
func (n *Node) heardLoop(ctx context.Context) {
	for {
		var due <-chan time.Time
		if left, some := n.stopAllUnheard(); some {
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
func (n *Node) stopAllUnheard() (left time.Duration, some bool) {
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
		if one := n.silence(r.Alloc()) - since; !some || one < left {
			left, some = one, true
		}
	}
	return left, some
}

// stopUnheard stops an allocation when the control plane was not heard for as long as its group
// says.
func (n *Node) stopUnheard(r *alloc.Runner, since time.Duration) (stopped bool) {
	a := r.Alloc()
	limit := stopAfter(a)
	if limit <= 0 || since < n.silence(a) {
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

// silence is how long the control plane may be silent before an allocation is stopped: not before the
// next heartbeat is missed, which may be later than its group says.
func (n *Node) silence(a *structs.Allocation) time.Duration {
	return max(stopAfter(a), n.heard.atLeast())
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
