package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/internal/hostinfo"
	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// GC bounds what ended allocations may take. A field that is zero or less means the one
// of [DefaultGC], never "unlimited".
type GC struct {
	// MaxAllocs is how many allocations are kept, ended ones included, before the
	// oldest ended ones are destroyed.
	MaxAllocs int
	// DiskPercent and InodePercent are how full the allocations' file system may be
	// before ended ones are destroyed.
	DiskPercent, InodePercent float64
	// Interval is how often the disk is looked at, ends of allocations aside.
	Interval time.Duration
	// Parallel is how many are destroyed at once.
	Parallel int
}

// DefaultGC has Nomad's bounds.
func DefaultGC() GC {
	return GC{MaxAllocs: 50, DiskPercent: 80, InodePercent: 70, Interval: time.Minute, Parallel: 2}
}

func (g GC) withDefaults() GC {
	d := DefaultGC()
	if g.MaxAllocs <= 0 {
		g.MaxAllocs = d.MaxAllocs
	}
	if g.DiskPercent <= 0 {
		g.DiskPercent = d.DiskPercent
	}
	if g.InodePercent <= 0 {
		g.InodePercent = d.InodePercent
	}
	if g.Interval <= 0 {
		g.Interval = d.Interval
	}
	if g.Parallel <= 0 {
		g.Parallel = d.Parallel
	}
	return g
}

// diskUse is how full a file system is.
type diskUse struct{ percent, inodePercent float64 }

// measureDisk measures the file system of a directory.
func measureDisk(_ context.Context, dir string) (diskUse, error) {
	u, err := hostinfo.ReadDisk(dir)
	if err != nil {
		return diskUse{}, fmt.Errorf("measuring the file system of %s: %w", dir, err)
	}
	return diskUse{percent: u.UsedPercent, inodePercent: u.InodesUsedPercent}, nil
}

// gcLoop destroys the oldest ended allocations while there are too many or they take
// too much, and what has ended that nobody claimed. It looks when one is over or the control plane was informed of an end, and
// now and then, as what runs fills the disk too.
func (n *Node) gcLoop(ctx context.Context) {
	tick := time.NewTicker(n.cfg.GC.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.ended.C():
		case <-tick.C:
		}
		n.destroyForgotten()
		n.dropEndedStrays(ctx)
		n.collectExcess(ctx)
		n.collectForDisk(ctx)
	}
}

// CollectGarbage destroys every allocation that has ended, and returns when they are
// gone or ctx is done.
func (n *Node) CollectGarbage(ctx context.Context) { n.collect(ctx, n.collectable()) }

// CollectAllocation destroys one allocation that has ended, and returns when it is gone
// or ctx is done. An unknown one is errdefs.NotFound; one that has not ended, or whose end the
// control plane does not know, errdefs.FailedPrecondition.
func (n *Node) CollectAllocation(ctx context.Context, allocID string) error {
	r, err := n.runner(allocID)
	if err != nil {
		return err
	}
	if !hasEnded(r) || !n.report.endKnown(allocID) {
		return errdefs.New(errdefs.FailedPrecondition, "allocation %q has not ended: stop it first", allocID)
	}
	n.collect(ctx, []string{allocID})
	return ctx.Err()
}

// collectExcess destroys the oldest ended allocations until no more than MaxAllocs are left,
// those that are being destroyed already not counted.
func (n *Node) collectExcess(ctx context.Context) {
	n.mu.Lock()
	excess := len(n.runners) - n.cfg.GC.MaxAllocs
	for _, e := range n.marked {
		if e.destroying {
			excess--
		}
	}
	n.mu.Unlock()
	if excess > 0 {
		all := n.garbage()
		n.collect(ctx, idsOf(all[:min(len(all), excess)]))
	}
}

// collectForDisk destroys the oldest ended allocations one by one until the disk has room:
// each is gone before it is measured again, so that no more than necessary are destroyed.
func (n *Node) collectForDisk(ctx context.Context) {
	why := n.diskPressure(ctx)
	if why == "" {
		return
	}
	for _, id := range n.collectable() {
		n.logger.Info("destroying the oldest ended allocation to make room", "alloc_id", id, "reason", why)
		n.collect(ctx, []string{id})
		if why = n.diskPressure(ctx); why == "" || ctx.Err() != nil {
			return
		}
	}
	n.logger.Warn("no ended allocation is left that could be destroyed to make room", "reason", why)
}

// diskPressure returns what the disk has too little of; empty: of nothing, or it could not be measured.
func (n *Node) diskPressure(ctx context.Context) string {
	use, err := n.diskUse(ctx, n.cfg.AllocsDir)
	switch {
	case err != nil:
		n.logger.Warn("the disk cannot be measured, so nothing is collected to free it", "error", err)
	case use.percent > n.cfg.GC.DiskPercent:
		return fmt.Sprintf("disk usage of %.0f is over the threshold of %.0f percent", use.percent, n.cfg.GC.DiskPercent)
	case use.inodePercent > n.cfg.GC.InodePercent:
		return fmt.Sprintf("inode usage of %.0f is over the threshold of %.0f percent", use.inodePercent, n.cfg.GC.InodePercent)
	}
	return ""
}

// collect destroys allocations, not more than GC.Parallel at once on the whole node, and
// returns when they are gone or ctx is done.
func (n *Node) collect(ctx context.Context, ids []string) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, id := range ids {
		select {
		case n.destroying <- struct{}{}:
		case <-ctx.Done():
			return
		}
		n.logger.Debug("destroying an ended allocation", "alloc_id", id)
		all.Go(func() {
			defer func() { <-n.destroying }()
			select {
			case <-n.destroy(id):
			case <-ctx.Done():
			}
		})
	}
}

// collectable is the ended allocations that may be destroyed, the oldest end first.
func (n *Node) collectable() []string { return idsOf(n.garbage()) }

// garbage is an allocation that has come to its end, or is about to.
type garbage struct {
	id     string
	ended  time.Time
	ending bool // and cannot be destroyed yet
}

func idsOf(list []garbage) (ids []string) {
	for _, g := range list {
		if !g.ending {
			ids = append(ids, g.id)
		}
	}
	return ids
}

// garbage is what may be destroyed now or soon, the oldest end first: after a restart,
// what ended before is taken up one by one, and a younger one is not destroyed in place of
// an older. One whose end the control plane does not know cannot be destroyed yet: if the agent
// died after it was forgotten, it would be run again. One is kept whose disk another waits to
// take over.
func (n *Node) garbage() []garbage {
	var list []garbage
	var live []*alloc.Runner
	n.mu.Lock()
	for id, e := range n.marked {
		if e.destroying || e.unclaimed != "" {
			continue
		}
		over := hasEnded(e.runner)
		if !e.ended.IsZero() {
			list = append(list, garbage{id, e.ended, !over})
		}
		if e.ended.IsZero() || !over {
			live = append(live, e.runner)
		}
	}
	n.mu.Unlock()
	if list == nil {
		return nil
	}
	needed := n.awaitedBy(live)
	list = slices.DeleteFunc(list, func(g garbage) bool { return needed[g.id] })
	for i, g := range list {
		list[i].ending = g.ending || !n.report.endKnown(g.id)
	}
	slices.SortFunc(list, func(a, b garbage) int {
		return cmp.Or(a.ended.Compare(b.ended), strings.Compare(a.id, b.id))
	})
	return list
}

// hasEnded reports whether nothing of an allocation runs any more. Its state is terminal
// before that: a failed task fails the allocation while its siblings are being killed.
func hasEnded(r *alloc.Runner) bool {
	select {
	case <-r.WaitCh():
		return true
	default:
		return false
	}
}

// awaitedBy is what allocations that have not started wait for, and what that waits for:
// any of them may have the disk that is to be taken over, or lead to what still runs.
func (n *Node) awaitedBy(live []*alloc.Runner) map[string]bool {
	ids := map[string]bool{}
	var follow func(*alloc.Runner)
	follow = func(r *alloc.Runner) {
		for id := range r.Alloc().WaitsFor {
			if ids[id] {
				continue
			}
			ids[id] = true
			if before, err := n.runner(id); err == nil {
				follow(before)
			}
		}
	}
	for _, r := range live {
		if r.AllocState().ClientStatus == structs.ClientPending {
			follow(r)
		}
	}
	return ids
}
