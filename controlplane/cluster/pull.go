package cluster

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

const (
	// maxQuery is how long a server may leave the question open what has changed.
	maxQuery = 5 * time.Minute
	// lateQuery is how much later an answer may come: servers spread them, and are far.
	lateQuery = time.Minute
	// pause is the least time between two questions of which the first has told nothing.
	pause = 50 * time.Millisecond
	// perFetch is how many allocations are asked for at once, which bounds an answer.
	perFetch = 64
	// maxKnown is how many allocations a node takes from servers. Further ones are left where
	// they are until others are gone.
	maxKnown = 20_000
)

// pulled is what servers have told of the node's allocations. Its maps are under
// ControlPlane.mu, the indexes under ControlPlane.pulling.
type pulled struct {
	server   uint64 // the servers' index of what was told
	returned uint64 // the index that the node has; 0: it has none
	known    map[string]*known
	bytes    int               // the sum of their sizes
	refused  map[string]uint64 // the AllocModifyIndex of those that cannot be run, by ID
	// asked is closed once the servers were asked: before, they are told nothing.
	asked chan struct{}
}

// known is an allocation that the node has been told of, or has.
type known struct {
	alloc *structs.Allocation // read-only
	size  int                 // in bytes, as servers have sent it
	// modified is its AllocModifyIndex with the servers; 0: not asked for yet.
	modified uint64
	reported *structs.AllocationState // nil: nothing yet
	// told: reported is of this agent, which has its end before it hears that it is gone.
	told bool
	// vanished: the servers have forgotten it.
	vanished bool
	// identities are the tokens of its tasks' default identities, by task.
	identities map[string]string
	// migrateToken is for the disk of the allocation of another node that it replaces; empty: none.
	migrateToken string
}

func newPulled() pulled {
	return pulled{known: map[string]*known{}, refused: map[string]uint64{}, asked: make(chan struct{})}
}

// know takes an allocation that the node has stored.
func (p *pulled) know(k structs.KnownAllocation) {
	size := storedSize(k.Allocation)
	p.known[k.ID] = &known{alloc: k.Allocation, size: size, reported: k.State}
	p.bytes += size
}

func (k *known) ended() bool { return k.reported != nil && k.reported.ClientStatus.Terminal() }

// Allocations implements node.ControlPlane.
func (cp *ControlPlane) Allocations(ctx context.Context, nodeID string, minIndex uint64) (*structs.Assignments, error) {
	cp.pulling.Lock()
	defer cp.pulling.Unlock()
	all := minIndex == 0 || minIndex != cp.pulled.returned
	if all {
		cp.pulled.server = 0
	}
	for {
		news, answered, err := cp.pull(ctx, nodeID, all)
		switch {
		case err != nil:
			return nil, err
		case all && answered, !all && len(news.Changed)+len(news.Gone) > 0:
			cp.pulled.returned = max(cp.pulled.returned+1, cp.pulled.server)
			news.Index, news.All = cp.pulled.returned, all
			return news, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// wireAssigned is which allocations a node has, at which index each has changed.
type wireAssigned struct {
	Allocs        map[string]uint64
	MigrateTokens map[string]string
	Index         uint64
}

// pull asks once what has changed, which may be nothing. Answered is false where it was woken
// before servers have said anything: nothing is known of them then.
func (cp *ControlPlane) pull(ctx context.Context, nodeID string, all bool) (news *structs.Assignments, answered bool, err error) {
	_, secret, err := cp.registered(nodeID)
	if err != nil {
		return nil, false, err
	}
	var told wireAssigned
	answered, err = cp.untilWoken(ctx, func(ctx context.Context) error {
		return cp.servers.callFor(ctx, maxQuery+lateQuery, "Node.GetClientAllocs", struct {
			query
			NodeID, SecretID string
		}{query{cp.asNode(secret), cp.pulled.server, maxQuery, cp.pulled.server > 0}, nodeID, secret}, &told)
	})
	if err != nil {
		return nil, false, err
	}
	news = &structs.Assignments{}
	if answered && (told.Index > cp.pulled.server || all) {
		changed := cp.changed(told.Allocs, all)
		fetched, err := cp.fetch(ctx, secret, nodeID, told.Allocs, changed)
		if err != nil {
			return nil, false, err
		}
		cp.takeTokens(told.MigrateTokens)
		news.Changed = append(fetched, cp.vanish(told.Allocs, all)...)
		if cp.pulled.server = max(told.Index, 1); cp.pulled.returned == 0 {
			close(cp.pulled.asked)
			cp.pulled.returned = 1
		}
	}
	if answered || !all { // a list of all that was not answered is not told
		news.Gone = cp.forget(all)
	}
	return news, answered, nil
}

// untilWoken asks; it gives up without an answer or an error when something else is to be told.
func (cp *ControlPlane) untilWoken(ctx context.Context, ask func(context.Context) error) (answered bool, err error) {
	asking, cancel := context.WithCancel(ctx)
	woken := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-cp.wake.C():
			close(woken)
			cancel()
		case <-asking.Done():
		}
	}()
	err = ask(asking)
	cancel()
	<-done
	if err != nil && wake.IsClosed(woken) && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// changed returns the IDs that are new or have changed, sorted; all of them, if so.
func (cp *ControlPlane) changed(told map[string]uint64, all bool) (ids []string) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	maps.DeleteFunc(cp.pulled.refused, func(id string, _ uint64) bool { _, there := told[id]; return !there })
	room := maxKnown - len(cp.pulled.known) - len(cp.pulled.refused)
	for id, modified := range told {
		switch k := cp.pulled.known[id]; {
		case k == nil && cp.pulled.refused[id] == modified && modified > 0:
		case k != nil && (all || modified > k.modified || k.vanished):
			ids = append(ids, id)
		case k == nil && room > 0:
			room--
			ids = append(ids, id)
		case k == nil:
			cp.logger.Warn("leaving out an allocation: the node has as many as it may", "alloc_id", id, "most", maxKnown)
		}
	}
	slices.Sort(ids)
	return ids
}

// fetch gets allocations: all of them as servers have told of them, or none. One that cannot be
// run is reported as failed and left out.
func (cp *ControlPlane) fetch(ctx context.Context, secret, nodeID string, told map[string]uint64, ids []string) (list []*structs.Allocation, err error) {
	var got []*wireAlloc
	for part := range slices.Chunk(ids, perFetch) {
		answer, err := cp.fetchPart(ctx, secret, told, part)
		if err != nil {
			return nil, err
		}
		got = append(got, answer...)
	}
	for _, w := range got {
		a, err := allocOf(w, nodeID)
		size := sizeOf(w)
		if err == nil {
			err = cp.fits(w.ID, size)
		}
		if err != nil {
			a = cp.refuse(ctx, nodeID, w, told[w.ID], err)
		} else {
			cp.know(a, size, w.SignedIdentities)
		}
		if a != nil {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b *structs.Allocation) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) })
	return list, nil
}

// fetchPart gets some. What a server leaves out, or has in an older version than was told, is
// asked for again: another of its kind may be behind, or one was collected meanwhile.
func (cp *ControlPlane) fetchPart(ctx context.Context, secret string, told map[string]uint64, ids []string) ([]*wireAlloc, error) {
	newest := uint64(0)
	for _, id := range ids {
		newest = max(newest, told[id])
	}
	var got struct{ Allocs []*wireAlloc }
	err := cp.servers.callFor(ctx, answerTimeout+lateQuery, "Alloc.GetAllocs", struct {
		query
		AllocIDs []string
	}{query{cp.asNode(secret), max(newest, 1) - 1, answerTimeout, true}, ids}, &got)
	if err != nil {
		return nil, err
	}
	asked := map[string]*wireAlloc{}
	for _, w := range got.Allocs {
		if w != nil && w.AllocModifyIndex >= told[w.ID] {
			asked[w.ID] = w
		}
	}
	list := make([]*wireAlloc, 0, len(ids))
	for _, id := range ids {
		if asked[id] == nil {
			return nil, errdefs.NewRecoverable(errdefs.Unavailable, "the servers name allocation %s at index %d, and do not send it", id, told[id])
		}
		list = append(list, asked[id])
	}
	return list, nil
}

// know takes an allocation as servers have sent it.
func (cp *ControlPlane) know(a *structs.Allocation, size int, identities map[string]string) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	k := cp.pulled.known[a.ID]
	if k == nil {
		k = &known{}
		cp.pulled.known[a.ID] = k
	}
	cp.pulled.bytes += size - k.size
	k.alloc, k.size, k.modified, k.vanished, k.identities = a, size, a.AllocModifyIndex, false, identities
}

// takeTokens takes the tokens for disks that allocations are to take over.
func (cp *ControlPlane) takeTokens(tokens map[string]string) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	for id, token := range tokens {
		if k := cp.pulled.known[id]; k != nil && len(token) <= maxToken {
			k.migrateToken = token
		}
	}
}

// vanish returns, to be stopped, what runs and the servers have forgotten; in a list of all
// also what has ended, until that was told.
func (cp *ControlPlane) vanish(told map[string]uint64, all bool) (list []*structs.Allocation) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	for id, k := range cp.pulled.known {
		if _, there := told[id]; there || k.vanished && !all {
			continue
		}
		if !k.vanished {
			stop := *k.alloc
			stop.DesiredStatus, stop.DesiredDescription = structs.DesiredStop, "the servers have forgotten the allocation"
			stop.AllocModifyIndex++
			k.alloc, k.vanished = &stop, true
		}
		if !k.gone() && (all || !k.ended()) {
			list = append(list, k.alloc)
		}
	}
	return list
}

// gone reports whether nothing of an allocation is left to be done here.
func (k *known) gone() bool { return k.vanished && k.told && k.ended() }

// forget returns what is gone. In a list of all it is left out.
func (cp *ControlPlane) forget(all bool) (gone []string) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	for id, k := range cp.pulled.known {
		if k.gone() {
			delete(cp.pulled.known, id)
			cp.pulled.bytes -= k.size
			if !all {
				gone = append(gone, id)
			}
		}
	}
	return gone
}
