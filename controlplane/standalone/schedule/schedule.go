package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// Alloc is an allocation as the scheduler sees it.
type Alloc struct{ *structs.Allocation }

// maxReschedules is how many past reschedules of an allocation are kept. A policy
// that allows more attempts than this within its interval is taken as this many.
const maxReschedules = 100

// Input is all that a decision depends on. It is not changed.
type Input struct {
	// Job is the job, canonicalised. Its JobModifyIndex distinguishes its versions.
	Job *nomad.Job
	// Stopped is set when nothing of the job is to run.
	Stopped bool
	// ForceReschedule replaces allocations that failed whatever their policy says.
	ForceReschedule bool
	// Since is the JobModifyIndex with which the job was last started: allocations
	// from before that ended do not count as done.
	Since uint64
	Nodes []*structs.Node
	// Allocs are the job's allocations, of all versions, ended ones too.
	Allocs []*Alloc
	// Others are the other jobs' allocations that Taken has not.
	Others []*structs.Allocation
	// Taken is, by the ID of a node that is not down, what those of all jobs take there that
	// are [InTotal]. The others are among Others, with the ended ones that lead from one to
	// another that it waits for. A node that is not in it has all its allocations in Others.
	Taken map[string]*Taken
	// Rest returns the other jobs' allocations that Taken has of a node. It is asked only when
	// something has to be preempted there.
	Rest func(nodeID string) []*structs.Allocation
	// Deployment is that of the job's current version, one that has ended too; nil: none.
	Deployment *structs.Deployment
	// Algorithm is which node is taken of several that have room.
	Algorithm Algorithm
	// Oversubscribe is set when tasks may have more memory than they are promised, up to
	// their memory_max.
	Oversubscribe bool
	// Preempt is set when the job may have less important jobs' allocations ended for its own.
	Preempt bool
	Now     time.Time
	// Volumes are the dynamic host volumes of the job's namespace by ID, but for those that are
	// being deleted, and Claims what the job's groups are to have of them again.
	Volumes map[string]*nomad.HostVolume
	Claims  []*nomad.TaskGroupHostVolumeClaim
	// Writers returns the ID of another job's allocation that may write to a volume and has not
	// ended; empty: there is none. It is asked only of what has to have one writer.
	Writers func(*nomad.HostVolume) string
	// NewID returns a fresh allocation ID.
	NewID func() string
}

// Result is a decision. Allocations in it are new values or copies, without indexes
// and times, which who stores them sets.
type Result struct {
	Place  []*Alloc
	Update []*structs.Allocation // in place
	Stop   []Stop
	// Preempted maps another job's allocation that is to end to the one in Place that it
	// makes room for, which lists it in its PreemptedAllocations and waits for its end.
	Preempted map[string]string
	// Replaced maps an allocation to the one in Place that takes its place.
	Replaced map[string]string
	// Later are failed allocations that will be replaced when their delay is over.
	Later []Later
	// Failed has, by group, the reason why something could not be placed, and Queued how many
	// allocations wait for it. Queued has every group. Of a group of the system types that no
	// node may run, none waits.
	Failed map[string]*structs.PlacementMetrics
	Queued map[string]int
	// Deployment is begun with this decision; nil: none is. It is running or, where a person
	// has to decide whether it goes on, paused.
	Deployment *structs.Deployment
	// Completed is set when the deployment runs and has nothing left to do.
	Completed bool
	// Desired counts what was decided, by group.
	Desired map[string]*structs.DesiredUpdates
}

// Stop is an allocation that is not to run any more.
type Stop struct {
	ID          string
	Description string
	// Lost is set when its node is gone, so that its end will not be reported.
	Lost bool
}

// Later is a failed allocation that will be replaced at a time.
type Later struct {
	ID string
	At time.Time
}

// Values of DesiredDescription, with Nomad's texts.
const (
	descNotNeeded  = "alloc not needed due to job update"
	descUpdating   = "alloc is being updated due to job update"
	descLost       = "alloc is lost since its node is down"
	descMigrating  = "alloc is being migrated"
	descDrained    = "alloc not needed as node is tainted"
	descInfeasible = "alloc not needed: its node does not meet the job's constraints any more"
)

// Waits reports whether something is to be placed that has no place.
func (r *Result) Waits() bool {
	for _, n := range r.Queued {
		if n > 0 {
			return true
		}
	}
	return false
}

// Changes reports whether the decision changes any allocation or the deployment.
func (r *Result) Changes() bool {
	return len(r.Place) > 0 || len(r.Update) > 0 || len(r.Stop) > 0 || r.Deployment != nil || r.Completed
}

// Schedule decides. A group is never given more than its count of live allocations
// (on each node for the system types), and nothing is placed where it may not run or
// does not fit.
func Schedule(in Input) *Result {
	s := newScheduler(in)
	groups := map[string]bool{}
	if !in.Stopped {
		for _, g := range in.Job.TaskGroups {
			groups[*g.Name] = true
			s.res.Queued[*g.Name] = 0
			s.res.Desired[*g.Name] = &structs.DesiredUpdates{}
			if PerNode(in.Job) {
				s.everyNode(g)
			} else {
				s.counted(g)
			}
		}
	}
	for _, a := range in.Allocs {
		if !groups[a.TaskGroup] && !a.Terminal() {
			s.stop(a, descNotNeeded)
		}
	}
	d := in.Deployment
	if d == nil {
		d = s.res.Deployment
	}
	s.res.Completed = !in.Stopped && d != nil && d.Status == nomad.DeploymentStatusRunning && !s.unfinished
	return s.res
}

func newScheduler(in Input) *scheduler {
	return &scheduler{
		Input: in,
		cap:   newCapacity(in),
		res: &Result{
			Preempted: map[string]string{},
			Replaced:  map[string]string{},
			Failed:    map[string]*structs.PlacementMetrics{},
			Queued:    map[string]int{},
			Desired:   map[string]*structs.DesiredUpdates{},
		},
		destroys: map[destroysKey]bool{},
		victims:  map[string][]victim{},
	}
}

// PerNode reports whether a job runs on every node.
func PerNode(job *nomad.Job) bool {
	return *job.Type == nomad.JobTypeSystem || *job.Type == nomad.JobTypeSysbatch
}

// finite reports whether a job's allocations are done when they complete.
func finite(job *nomad.Job) bool {
	return *job.Type == nomad.JobTypeBatch || *job.Type == nomad.JobTypeSysbatch
}

// scheduler is one decision in the making.
type scheduler struct {
	Input
	cap      *capacity
	res      *Result
	destroys map[destroysKey]bool
	// unfinished is set when a group has not come to the end of the deployment.
	unfinished bool
	victims    map[string][]victim // by node ID, of those that were asked for
	groups     map[groupNode]int   // of the job's running allocations; nil: not counted yet
	suitable   map[onNode]*suitability
}

// of returns the group's allocations that may still count: not stopped and not
// replaced. Those of the current version come first: one that an operator has claimed may be older
// than the one of another version that has its name. Of a version the newest come first.
func (s *scheduler) of(group string) (current []*Alloc) {
	for _, a := range s.Allocs {
		if a.TaskGroup == group && !a.ServerTerminal() && a.NextAllocation == "" {
			current = append(current, a)
		}
	}
	slices.SortStableFunc(current, func(a, b *Alloc) int {
		switch aOld, bOld := s.outdated(a), s.outdated(b); {
		case aOld == bOld:
			return cmp.Compare(b.CreateIndex, a.CreateIndex)
		case aOld:
			return 1
		}
		return -1
	})
	return current
}

// node returns an allocation's node, nil when it is gone or down.
func (s *scheduler) node(id string) *structs.Node {
	for _, n := range s.Nodes {
		if n.ID == id && n.Status != structs.NodeDown {
			return n
		}
	}
	return nil
}

func (s *scheduler) stop(a *Alloc, description string) {
	s.res.Stop = append(s.res.Stop, Stop{
		ID:          a.ID,
		Description: description,
		Lost:        !a.ClientStatus.Terminal() && s.node(a.NodeID) == nil,
	})
	if d := s.res.Desired[a.TaskGroup]; d != nil {
		d.Stop++
	}
}

// obsolete reports whether an ended allocation belongs to an earlier registration of the job,
// so that it does not count for this one.
func (s *scheduler) obsolete(a *Alloc, g *nomad.TaskGroup) bool {
	return a.Job == nil || structs.Deref(a.Job.JobModifyIndex) < s.Since || s.destructive(a, g)
}

// update changes a live allocation to the job's current version in place, if it has
// another, and makes it part of a deployment, if there is one that it is not part of. It
// returns the changed one; nil: nothing changes.
func (s *scheduler) update(a *Alloc, deployment string) *structs.Allocation {
	d := s.res.Desired[a.TaskGroup]
	if !s.outdated(a) && (deployment == "" || a.DeploymentID == deployment) {
		d.Ignore++
		return nil
	}
	c := a.Copy()
	c.Job = s.Job
	c.DeploymentID = deployment
	if c.DeploymentStatus != nil { // the health of the version before
		c.DeploymentStatus = &structs.DeploymentStatus{Canary: a.DeploymentStatus.Canary}
	}
	s.res.Update = append(s.res.Update, c)
	d.InPlaceUpdate++
	return c
}

// wanted is one allocation to place.
type wanted struct {
	group *nomad.TaskGroup
	index int
	node  *structs.Node // nil: any
	// previous is whom it replaces; nil: none.
	previous *Alloc
	// stopping is why previous is to be stopped once its successor has a place; of one that
	// failed, which is too, nothing is said.
	stopping string
	// reschedule is set when previous failed.
	reschedule *structs.Reschedule
	// job is the version to place; nil: the current one.
	job        *nomad.Job
	deployment string // that it is part of
	canary     bool
}

// place finds a place for each, and gives the reason for those that have none. Nothing is
// preempted for one before all that find room without have it.
func (s *scheduler) place(list []wanted) {
	if s.Preempt {
		list = s.placeEach(list, false)
	}
	for _, w := range s.placeEach(list, s.Preempt) {
		group := *w.group.Name
		s.res.Queued[group]++
		if w.node == nil || s.res.Failed[group].NodesExhausted > 0 { // a node that may not have it is not asked
			s.desire(w)
		}
	}
}

// desire counts what is to be placed, whether there is room for it or not.
func (s *scheduler) desire(w wanted) {
	switch d := s.res.Desired[*w.group.Name]; {
	case w.canary:
		d.Canary++
	case w.stopping == descUpdating:
		d.DestructiveUpdate++
	default:
		d.Place++
	}
}

// placeEach returns those that have no place. Why is what the last round finds that there is.
func (s *scheduler) placeEach(list []wanted, preempt bool) (without []wanted) {
	failed := map[string]*structs.PlacementMetrics{}
	lacking := map[*nomad.TaskGroup]bool{} // a job may have two versions of a group in the list
	for _, w := range list {
		group := *w.group.Name
		if lacking[w.group] && w.previous == nil && w.node == nil && !eachItsOwn(w.group) {
			// The same again fails for the same reason.
			failed[group].CoalescedFailures++
			without = append(without, w)
			continue
		}
		a, metric := s.placeOne(w, preempt)
		if a == nil {
			if failed[group] == nil {
				failed[group] = metric
			} else {
				failed[group].CoalescedFailures++
			}
			lacking[w.group] = true
			without = append(without, w)
			continue
		}
		s.placed(w, a)
	}
	if preempt == s.Preempt {
		maps.Copy(s.res.Failed, failed)
	}
	return without
}

// placed records that an allocation has a place.
func (s *scheduler) placed(w wanted, a *Alloc) {
	s.res.Place = append(s.res.Place, a)
	s.desire(w)
	if w.stopping != "" || w.reschedule != nil { // what is replaced as it failed says nothing, as with Nomad
		s.res.Stop = append(s.res.Stop, Stop{ID: w.previous.ID, Description: w.stopping})
		if s.groups != nil && !w.previous.Terminal() {
			s.groups[groupNode{w.previous.TaskGroup, w.previous.NodeID}]--
		}
	}
	if w.previous != nil {
		s.res.Replaced[w.previous.ID] = a.ID
	}
}

// placeOne returns the allocation, or why there is none.
func (s *scheduler) placeOne(w wanted, preempt bool) (*Alloc, *structs.PlacementMetrics) {
	if w.job != nil {
		current := s.Job
		s.Job = w.job
		defer func() { s.Job = current }()
	}
	a := &Alloc{Allocation: &structs.Allocation{
		ID:            s.NewID(),
		Namespace:     *s.Job.Namespace,
		Name:          allocName(*s.Job.ID, *w.group.Name, w.index),
		JobID:         *s.Job.ID,
		TaskGroup:     *w.group.Name,
		Job:           s.Job,
		DesiredStatus: structs.DesiredRun,
		ClientStatus:  structs.ClientPending,
		DeploymentID:  w.deployment,
	}}
	if w.canary {
		a.DeploymentStatus = &structs.DeploymentStatus{Canary: true}
	}
	if w.previous != nil {
		a.PreviousAllocation = w.previous.ID
		if w.reschedule != nil {
			a.Reschedules = append(slices.Clone(w.previous.Reschedules), *w.reschedule)
			a.Reschedules = a.Reschedules[max(0, len(a.Reschedules)-maxReschedules):]
		}
	}
	metric := newMetric(s.Job)
	var offers []*offer
	var exhausted []*structs.Node
	for _, n := range s.candidates(w, metric) {
		metric.NodesEvaluated++
		if why := s.infeasible(n, w.group, w.index, w.previous); len(why) > 0 {
			metric.NodesFiltered++
			for _, text := range why {
				metric.ConstraintFiltered = count(metric.ConstraintFiltered, text)
			}
			continue
		}
		r, dimension := s.cap.fit(n, s.cap.claim(a.Allocation, n.ID), a.ID, w.group)
		if dimension != "" {
			exhausted = append(exhausted, n)
			metric.NodesExhausted++
			metric.DimensionExhausted = count(metric.DimensionExhausted, dimension)
			continue
		}
		offers = append(offers, &offer{n, r, s.score(n, a, r, w)})
	}
	a.Metrics = metric
	if o := best(offers, metric); o != nil {
		s.give(a, o.node, o.resources)
		return a, nil
	}
	if preempt && s.preempt(a, w.group, exhausted) {
		return a, nil
	}
	return nil, metric
}

// give takes a node's resources for an allocation.
func (s *scheduler) give(a *Alloc, n *structs.Node, r structs.AllocatedResources) {
	a.NodeID, a.NodeName, a.Resources = n.ID, n.Name, r
	s.cap.add(a.Allocation)
	s.cap.ofJob[n.ID]++
	if s.groups != nil {
		s.groups[groupNode{a.TaskGroup, n.ID}]++
	}
}

// candidates returns the nodes that are open for the job at all, and counts them.
func (s *scheduler) candidates(w wanted, m *structs.PlacementMetrics) (open []*structs.Node) {
	for _, n := range s.Nodes {
		if w.node != nil && w.node.ID != n.ID || !inPool(s.Job, n) {
			continue
		}
		m.NodesInPool++
		if !ready(n) || !inDatacenter(s.Job, n) {
			continue
		}
		m.NodesAvailable = count(m.NodesAvailable, n.Datacenter)
		open = append(open, n)
	}
	return open
}

func newMetric(job *nomad.Job) *structs.PlacementMetrics {
	return &structs.PlacementMetrics{NodePool: poolOf(job), NodesAvailable: map[string]int{}}
}

func allocName(job, group string, index int) string {
	return fmt.Sprintf("%s.%s[%d]", job, group, index)
}

func count(m map[string]int, key string) map[string]int {
	if m == nil {
		m = map[string]int{}
	}
	m[key]++
	return m
}
