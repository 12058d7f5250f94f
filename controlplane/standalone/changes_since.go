package standalone

import (
	"cmp"
	"slices"

	"github.com/wasmnode/wasmnode/structs"
)

// ChangesSince tells those what has happened who come after it is kept no more.
func (cp *ControlPlane) ChangesSince(index uint64) structs.Changes {
	cp.mu.RLock()
	defer cp.mu.RUnlock()
	j := &journal{}
	cp.data.rowsSince(index, func(at uint64, before, after any) {
		j.entries = append(j.entries, &journalEntry{at, before, after})
	})
	slices.SortStableFunc(j.entries, func(a, b *journalEntry) int { return cmp.Compare(a.index, b.index) })
	cp.events.mu.Lock() // what is committed is published with the lock that is held
	defer cp.events.mu.Unlock()
	return structs.Changes{Batches: j.batches(), Index: cp.index, Next: cp.events.next}
}

// rowsSince notes each row that was changed after an index, with a row that it may have been
// before, so that its event has a type that such a change has.
func (t *tables) rowsSince(index uint64, note func(at uint64, before, after any)) {
	for _, j := range t.jobs {
		before := j
		if *j.JobModifyIndex > index {
			before = nil
		}
		noteSince(index, *j.ModifyIndex, before, j, note)
	}
	for _, a := range t.allocs {
		before := a
		if a.CreateIndex > index {
			before = nil
		}
		noteSince(index, a.ModifyIndex, before, a, note)
	}
	for _, e := range t.evals {
		noteSince(index, e.ModifyIndex, nil, e, note)
	}
	for _, d := range t.deployments {
		before := *d
		before.Status = ""
		if d.CreateIndex > index {
			noteSince(index, d.ModifyIndex, nil, d, note)
		} else {
			noteSince(index, d.ModifyIndex, &before, d, note)
		}
	}
	for _, n := range t.nodes {
		before := n
		if n.CreateIndex > index {
			before = nil
		}
		noteSince(index, n.ModifyIndex, before, n, note)
	}
	for _, p := range t.pools {
		noteSince(index, p.ModifyIndex, nil, p, note)
	}
	for _, one := range t.tokens {
		noteSince(index, one.ModifyIndex, nil, one, note)
	}
	for _, p := range t.policies {
		noteSince(index, p.ModifyIndex, nil, p, note)
	}
	for _, r := range t.roles {
		noteSince(index, r.ModifyIndex, nil, r, note)
	}
	for _, s := range t.services {
		noteSince(index, s.ModifyIndex, nil, s, note)
	}
	for _, v := range t.volumes {
		noteSince(index, v.Volume.ModifyIndex, nil, v, note)
	}
}

func noteSince[V any](index, at uint64, before, after *V, note func(at uint64, before, after any)) {
	if at > index {
		note(at, before, after)
	}
}
