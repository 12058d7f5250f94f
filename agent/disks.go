package agent

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/wasmnode/wasmnode/controlplane/cluster"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/watcher"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

const (
	// maxDisks is how many disks other nodes take at once; more of them wait.
	maxDisks = 64
	// diskRefusal bounds how long who is refused may take with it, and diskStart how long a disk is waited
	// for that may be restored yet.
	diskRefusal, diskStart = 5 * time.Second, time.Minute
	// diskPatience is how long another node may take nothing of what is sent.
	diskPatience = 10 * time.Minute
)

// elsewhere knows the allocations of other nodes; nil: there are none.
func (a *agent) elsewhere() watcher.Elsewhere {
	if a.cluster == nil {
		return nil
	}
	return a.cluster
}

// disks answers other nodes of a cluster that are to take over the disk of an allocation of this one.
func (a *agent) disks(next http.Handler) http.Handler {
	if a.cluster == nil {
		return next
	}
	if cluster.ReachableAddress(a.node.Structs()) == "" {
		a.logger.Info("the API is for this machine only: other nodes cannot take over disks of its allocations (ephemeral_disk with migrate) until bind_addr is an address that they reach", "http_addr", a.address)
	}
	return &disks{
		next: next, places: semaphore.NewWeighted(maxDisks), patience: diskPatience, warn: a.logger.Warn,
		may: a.cluster.MayTakeDisk, directory: a.node.Directory,
	}
}

type disks struct {
	next      http.Handler
	places    *semaphore.Weighted
	patience  time.Duration
	warn      func(text string, args ...any)
	may       func(allocID, token string) error
	directory func(allocID string) (*allocdir.Dir, error)
}

var diskPath = regexp.MustCompile(`^/v1/client/allocation/([0-9a-f-]{36})/snapshot$`)

// ServeHTTP implements http.Handler.
func (d *disks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	of := diskPath.FindStringSubmatch(r.URL.Path)
	if of == nil || r.Method != http.MethodGet {
		d.next.ServeHTTP(w, r)
		return
	}
	deadlines := http.NewResponseController(w)
	_, _ = deadlines.SetReadDeadline(time.Now().Add(diskRefusal)), deadlines.SetWriteDeadline(time.Now().Add(diskRefusal))
	if err := d.may(of[1], token(r)); err != nil {
		refuseDisk(w, err)
		return
	}
	_, _ = deadlines.SetReadDeadline(time.Time{}), deadlines.SetWriteDeadline(time.Time{})
	dir, err := d.await(r.Context(), of[1])
	if err != nil {
		refuseDisk(w, err)
		return
	}
	if d.places.Acquire(r.Context(), 1) != nil {
		return // whoever has asked is gone
	}
	defer d.places.Release(1)
	d.send(r.Context(), w, dir, of[1])
}

// await is the directory of an allocation. One that may be there yet is waited for: who asks, asks once.
func (d *disks) await(ctx context.Context, allocID string) (dir *allocdir.Dir, err error) {
	ctx, cancel := context.WithTimeout(ctx, diskStart)
	defer cancel()
	for {
		dir, err = d.directory(allocID)
		if !errors.Is(err, errdefs.Unavailable) {
			return dir, err
		}
		select {
		case <-time.After(diskStart / 600):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// send sends a disk. One that breaks off ends the connection, so that it is not taken for a whole one.
func (d *disks) send(ctx context.Context, w http.ResponseWriter, dir *allocdir.Dir, allocID string) {
	w.Header().Set("Content-Type", "application/x-tar")
	leftOut, err := dir.Snapshot(ctx, &patiently{w, http.NewResponseController(w), d.patience})
	if err != nil {
		d.warn("another node was to take over the disk of an allocation, and has not all of it", "alloc_id", allocID, "error", err)
	}
	if errors.Is(err, allocdir.ErrTorn) {
		panic(http.ErrAbortHandler)
	}
	if leftOut > 0 {
		d.warn("sockets, pipes and devices of an allocation's disk were left out for the node that takes it over", "alloc_id", allocID, "count", leftOut)
	}
}

// token is what a request proves with that it may do what it asks for.
func token(r *http.Request) string {
	if t := r.Header.Get("X-Nomad-Token"); t != "" {
		return t
	}
	t, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return t
}

func refuseDisk(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch {
	case errors.Is(err, errdefs.PermissionDenied):
		code = http.StatusForbidden
	case errors.Is(err, errdefs.NotFound):
		code = http.StatusNotFound
	case errors.Is(err, errdefs.Unavailable):
		code = http.StatusServiceUnavailable
	}
	w.Header().Set("Connection", "close")
	http.Error(w, err.Error(), code)
}

// patiently writes to who takes some of it now and then.
type patiently struct {
	io.Writer
	deadlines *http.ResponseController
	patience  time.Duration
}

// Write implements io.Writer.
func (p *patiently) Write(b []byte) (int, error) {
	if err := p.deadlines.SetWriteDeadline(time.Now().Add(p.patience)); err != nil {
		return 0, err
	}
	return p.Writer.Write(b)
}
