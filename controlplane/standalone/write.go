package standalone

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// operation is one caller's change, done by the writer.
type operation struct {
	change func(*tx) error
	done   chan error // capacity 1: the writer never waits for the caller
}

// write does a change: it is durable and visible when write returns nil, and has not
// happened otherwise. The change must find all its faults before it changes anything.
func (cp *ControlPlane) write(change func(*tx) error) error {
	op := &operation{change: change, done: make(chan error, 1)}
	cp.queueMu.Lock()
	if cp.closed {
		cp.queueMu.Unlock()
		return errClosed
	}
	cp.queue = append(cp.queue, op)
	cp.queueMu.Unlock()
	cp.wake.Set()
	return <-op.done
}

// writeLoop is the only writer. What is queued while one transaction is made durable
// goes into the next one together. It also does what is due at a time.
func (cp *ControlPlane) writeLoop() {
	defer close(cp.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-cp.wake.C():
		case <-timer.C:
			cp.commit([]*operation{{change: (*tx).doDue, done: make(chan error, 1)}})
		case <-cp.stop:
			cp.commitQueued()
			return
		}
		cp.commitQueued()
		timer.Reset(cp.untilDue())
	}
}

func (cp *ControlPlane) commitQueued() {
	cp.queueMu.Lock()
	batch := cp.queue
	cp.queue = nil
	cp.queueMu.Unlock()
	if len(batch) > 0 {
		cp.commit(batch)
	}
}

// commit does the operations in one transaction and reports to each what became of it.
func (cp *ControlPlane) commit(batch []*operation) {
	t := cp.begin()
	results := make([]error, len(batch))
	for i, op := range batch {
		results[i] = t.do(op.change)
	}
	if t.err == nil {
		t.err = t.do((*tx).drainNodes)
	}
	if t.err == nil {
		t.collectSize()
		t.err = t.commit()
	}
	if t.err != nil && len(batch) > 1 {
		// One caller's fault must not be another's.
		for _, op := range batch {
			cp.commit([]*operation{op})
		}
		return
	}
	for i, op := range batch {
		if results[i] == nil && t.err != nil {
			results[i] = t.err
		}
		op.done <- results[i]
	}
	if t.err != nil && !cp.cannotStore {
		cp.logger.Error("a change could not be stored", "error", t.err)
	}
	if t.err != nil || len(t.touched) > 0 || t.unseen {
		cp.cannotStore = t.err != nil
	}
}

// tx is a transaction in the making: changes over the committed tables. Only the
// writer has one, and only the writer changes the tables, so that it reads them
// without the lock.
type tx struct {
	cp    *ControlPlane
	now   time.Time
	index uint64
	// fresh is set while the current operation has no index of its own yet.
	fresh bool
	err   error // of a broken transaction: nothing of it is committed

	jobs        changes[jobKey, *job]
	specs       changes[uint64, *spec]
	allocs      changes[string, *schedule.Alloc]
	evals       changes[string, *structs.Evaluation]
	nodes       changes[string, *structs.Node]
	tokens      changes[string, *structs.ACLToken]
	deployments changes[string, *structs.Deployment]
	pools       changes[string, *nomad.NodePool]
	namespaces  changes[string, *nomad.Namespace]
	policies    changes[string, *structs.ACLPolicy]
	roles       changes[string, *structs.ACLRole]
	services    changes[string, *structs.ServiceRegistration]
	parents     changes[jobKey, *parent]
	variables   changes[variableKey, *variableRow]
	rootKeys    changes[string, *nomad.RootKeyMeta]
	volumes     changes[string, *structs.NodeVolume]
	claims      changes[string, *nomad.TaskGroupHostVolumeClaim]
	indexes
	// aclBootstrap is the index at which the first token was made; 0: it was not.
	aclBootstrap uint64
	// scheduler is how the scheduler decides; never nil.
	scheduler *nomad.SchedulerConfiguration

	journal      journal
	touched      map[string]uint64   // tables
	unseen       bool                // something changes that is to be stored, and that no index tells of
	touchedNodes map[string][]string // what a node is to know: IDs of allocations
}

func (cp *ControlPlane) begin() *tx {
	t := &tx{
		cp:           cp,
		now:          cp.now(),
		index:        cp.index,
		jobs:         changes[jobKey, *job]{base: cp.data.jobs},
		parents:      changes[jobKey, *parent]{base: cp.data.parents},
		specs:        changes[uint64, *spec]{base: cp.data.specs},
		allocs:       changes[string, *schedule.Alloc]{base: cp.data.allocs},
		evals:        changes[string, *structs.Evaluation]{base: cp.data.evals},
		nodes:        changes[string, *structs.Node]{base: cp.data.nodes},
		tokens:       changes[string, *structs.ACLToken]{base: cp.data.tokens},
		deployments:  changes[string, *structs.Deployment]{base: cp.data.deployments},
		pools:        changes[string, *nomad.NodePool]{base: cp.data.pools},
		namespaces:   changes[string, *nomad.Namespace]{base: cp.data.namespaces},
		policies:     changes[string, *structs.ACLPolicy]{base: cp.data.policies},
		roles:        changes[string, *structs.ACLRole]{base: cp.data.roles},
		variables:    changes[variableKey, *variableRow]{base: cp.data.variables},
		rootKeys:     changes[string, *nomad.RootKeyMeta]{base: cp.data.rootKeys},
		services:     changes[string, *structs.ServiceRegistration]{base: cp.data.services},
		volumes:      changes[string, *structs.NodeVolume]{base: cp.data.volumes},
		claims:       changes[string, *nomad.TaskGroupHostVolumeClaim]{base: cp.data.claims},
		aclBootstrap: cp.aclBootstrap,
		scheduler:    cp.scheduler,
		touched:      map[string]uint64{},
		touchedNodes: map[string][]string{},
	}
	t.follow(&cp.data)
	t.noteChanges()
	return t
}

// do does one operation. One that panics breaks the whole transaction, because it may
// have changed half of what it had to.
func (t *tx) do(change func(*tx) error) (err error) {
	if t.err != nil {
		return t.err
	}
	defer func() {
		if p := recover(); p != nil {
			t.err = fmt.Errorf("internal error: %v", p)
			err = t.err
		}
	}()
	t.fresh = true
	return change(t)
}

// at is the index of the current operation: all its changes have the same one.
func (t *tx) at() uint64 {
	if t.fresh {
		t.index++
		t.fresh = false
	}
	return t.index
}

func (t *tx) putJob(j *job) {
	t.touched[TableJobs] = t.at()
	t.jobs.put(keyOf(j.Job), j)
}

// putAlloc stores an allocation. What the node is to run changes when forNode is set.
func (t *tx) putAlloc(a *schedule.Alloc, forNode bool) {
	t.touched[TableAllocations] = t.at()
	t.touched[TableJobs] = t.at() // the job's summary
	a.ModifyIndex, a.ModifyTime = t.at(), t.now.UnixNano()
	if a.CreateIndex == 0 {
		a.CreateIndex, a.CreateTime = a.ModifyIndex, a.ModifyTime
	}
	if forNode {
		a.AllocModifyIndex = t.at()
		t.touchNode(a)
	}
	if a.DeploymentID != "" {
		t.count(t.allocs.get(a.ID), a)
	}
	t.allocs.put(a.ID, a)
	if a.ClientStatus.Terminal() {
		t.deleteServicesOf(a.ID)
	}
}

// changeAlloc stores a changed copy of an allocation.
func (t *tx) changeAlloc(a *schedule.Alloc, forNode bool, change func(*structs.Allocation)) *schedule.Alloc {
	c := &schedule.Alloc{Allocation: a.Copy()}
	change(c.Allocation)
	t.putAlloc(c, forNode)
	return c
}

func (t *tx) deleteAlloc(a *schedule.Alloc) {
	t.touched[TableAllocations] = t.at()
	t.touchNode(a)
	t.deleteServicesOf(a.ID)
	t.allocs.delete(a.ID)
}

// tellNode has a node be told what is decided about it, and of what else changed.
func (t *tx) tellNode(id string) {
	if _, told := t.touchedNodes[id]; !told {
		t.touchedNodes[id] = nil
	}
}

// touchNode has an allocation's node be told of it.
func (t *tx) touchNode(a *schedule.Alloc) {
	t.touchedNodes[a.NodeID] = append(t.touchedNodes[a.NodeID], a.ID)
}

func (t *tx) putEval(e *structs.Evaluation) {
	t.touched[TableEvaluations] = t.at()
	e.ModifyIndex, e.ModifyTime = t.at(), t.now.UnixNano()
	if e.CreateIndex == 0 {
		e.CreateIndex, e.CreateTime = e.ModifyIndex, e.ModifyTime
	}
	t.evals.put(e.ID, e)
}

func (t *tx) deleteEval(id string) {
	t.touched[TableEvaluations] = t.at()
	t.evals.delete(id)
}

func (t *tx) putNode(n *structs.Node) {
	t.touched[TableNodes] = t.at()
	n.ModifyIndex = t.at()
	if n.CreateIndex == 0 {
		n.CreateIndex = n.ModifyIndex
	}
	was := t.nodes.get(n.ID)
	if was == nil || was.Status != n.Status {
		n.StatusUpdated = t.now.UTC()
	}
	if was != nil && !reflect.DeepEqual(standingOf(was), standingOf(n)) {
		t.tellNode(n.ID)
	}
	t.nodes.put(n.ID, n)
	t.followVolumes(n)
}

func (t *tx) deleteNode(id string) {
	t.touched[TableNodes] = t.at()
	t.nodes.delete(id)
}

// jobAllocs returns a job's allocations as the transaction sees them.
func (t *tx) jobAllocs(key jobKey) []*schedule.Alloc { return t.allocsByJob.in(key) }

// commit makes the transaction durable, then visible.
func (t *tx) commit() error {
	if len(t.touched) == 0 && !t.unseen {
		return nil
	}
	if t.cp.file != nil {
		ops, err := t.encode()
		if err != nil {
			return err
		}
		if err := t.cp.file.Write(ops...); err != nil {
			return errdefs.NewRecoverable(errdefs.Internal, "the control plane cannot store a change: %v", err)
		}
	}
	cp := t.cp
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.index = t.index
	t.jobs.merge()
	t.parents.merge()
	t.specs.merge()
	t.allocs.merge()
	t.evals.merge()
	t.nodes.merge()
	t.tokens.merge()
	t.deployments.merge()
	t.pools.merge()
	t.namespaces.merge()
	t.policies.merge()
	t.roles.merge()
	t.variables.merge()
	t.rootKeys.merge()
	t.services.merge()
	t.volumes.merge()
	t.claims.merge()
	cp.aclBootstrap = t.aclBootstrap
	cp.scheduler = t.scheduler
	for id, allocIDs := range t.touchedNodes {
		if cp.nodeLogs[id] == nil {
			cp.nodeLogs[id] = &nodeLog{}
		}
		cp.nodeLogs[id].add(t.index, allocIDs)
	}
	defer cp.events.publish(t.journal.batches())
	for name, index := range t.touched {
		table := cp.tables[name]
		table.index = index
		close(table.changed)
		table.changed = make(chan struct{})
	}
	return nil
}

// encoding is a transaction as the file's operations.
type encoding struct {
	ops []boltfile.Op
	err error // of the first row that could not be encoded
}

func (e *encoding) put(bucket, key string, row any) {
	op, err := encodeRow(bucket, key, row)
	e.ops, e.err = append(e.ops, op), cmp.Or(e.err, err)
}

func (e *encoding) remove(bucket, key string) {
	e.ops = append(e.ops, boltfile.Op{Bucket: []string{bucket}, Key: key})
}

// rows encodes what a transaction does to one table.
func rows[K comparable, V any](e *encoding, bucket string, c *changes[K, V], key func(K) string, row func(V) any) {
	for k, v := range c.puts {
		e.put(bucket, key(k), row(v))
	}
	for k := range c.deletes {
		e.remove(bucket, key(k))
	}
}

// encode returns the transaction as the file's operations.
func (t *tx) encode() ([]boltfile.Op, error) {
	e := &encoding{}
	e.put(bucketState, keyIndex, t.index)
	e.put(bucketState, keyID, t.cp.id)
	if t.scheduler != t.cp.scheduler {
		e.put(bucketState, keyScheduler, t.scheduler)
	}
	if t.aclBootstrap != 0 {
		e.put(bucketState, keyACLBootstrap, t.aclBootstrap)
	}
	rows(e, bucketJobs, &t.jobs, jobKey.stored, func(j *job) any { return j.row() })
	rows(e, bucketParents, &t.parents, jobKey.stored, func(p *parent) any { return p.parentRow })
	rows(e, bucketSpecs, &t.specs, specKey, func(sp *spec) any { return specRow{sp.Job, sp.submission} })
	rows(e, bucketAllocations, &t.allocs, asIs, func(a *schedule.Alloc) any { return allocRowOf(a) })
	rows(e, bucketEvaluations, &t.evals, asIs, whole)
	rows(e, bucketNodes, &t.nodes, asIs, whole)
	rows(e, bucketNodePools, &t.pools, asIs, whole)
	rows(e, bucketACLPolicies, &t.policies, asIs, whole)
	rows(e, bucketACLRoles, &t.roles, asIs, whole)
	rows(e, bucketNamespaces, &t.namespaces, asIs, whole)
	rows(e, bucketVariables, &t.variables, variableKey.stored, whole)
	rows(e, bucketRootKeys, &t.rootKeys, asIs, whole)
	rows(e, bucketServices, &t.services, asIs, whole)
	rows(e, bucketHostVolumes, &t.volumes, asIs, whole)
	rows(e, bucketVolumeClaims, &t.claims, asIs, whole)
	rows(e, bucketDeployments, &t.deployments, asIs, whole)
	rows(e, bucketACLTokens, &t.tokens, asIs, whole)
	return e.ops, e.err
}

func asIs(key string) string { return key }

func whole[V any](v V) any { return v }

// changes is what a transaction does to one table.
type changes[K comparable, V any] struct {
	base    map[K]V
	puts    map[K]V
	deletes map[K]bool
	indexes []index[K, V]
	noted   func(key K, before, after V) // told of each change; nil: nobody
}

// changed reports whether the transaction puts or deletes a row.
func (c *changes[K, V]) changed(key K) bool {
	_, put := c.puts[key]
	return put || c.deletes[key]
}

// get returns a row as the transaction sees it; the zero value when there is none.
func (c *changes[K, V]) get(key K) (v V) {
	if v, ok := c.puts[key]; ok {
		return v
	}
	if c.deletes[key] {
		return v
	}
	return c.base[key]
}

// all calls each for every row as the transaction sees it, in no order. Rows may be
// put and deleted meanwhile; whether each sees those is not specified.
func (c *changes[K, V]) all(each func(K, V)) {
	for key, v := range c.base {
		if !c.changed(key) {
			each(key, v)
		}
	}
	for key, v := range maps.Clone(c.puts) {
		each(key, v)
	}
}

func (c *changes[K, V]) put(key K, v V) {
	if c.noted != nil {
		c.noted(key, c.get(key), v)
	}
	if c.puts == nil {
		c.puts = map[K]V{}
	}
	c.takeBack(key)
	c.puts[key] = v
	delete(c.deletes, key)
	for _, x := range c.indexes {
		x.staged(key, v, true)
	}
}

// takeBack has the indexes forget a row that is to change.
func (c *changes[K, V]) takeBack(key K) {
	v, ok := c.puts[key]
	if !ok && !c.deletes[key] {
		v, ok = c.base[key]
	}
	if ok {
		for _, x := range c.indexes {
			x.staged(key, v, false)
		}
	}
}

func (c *changes[K, V]) delete(key K) {
	if c.noted != nil {
		var none V
		c.noted(key, c.get(key), none)
	}
	if c.deletes == nil {
		c.deletes = map[K]bool{}
	}
	c.takeBack(key)
	delete(c.puts, key)
	c.deletes[key] = true
}

// merge makes the transaction's rows, and the indexes of them, the committed ones.
func (c *changes[K, V]) merge() {
	for key := range c.deletes {
		c.commit(key, false)
		delete(c.base, key)
	}
	for key, v := range c.puts {
		c.commit(key, false)
		c.base[key] = v
		c.commit(key, true)
	}
}

// commit tells the indexes that a committed row goes or has come.
func (c *changes[K, V]) commit(key K, in bool) {
	if v, ok := c.base[key]; ok {
		for _, x := range c.indexes {
			x.committed(key, v, in)
		}
	}
}
