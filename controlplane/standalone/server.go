package standalone

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"go.etcd.io/bbolt"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// The tables whose indexes can be waited for.
const (
	TableJobs        = "jobs"
	TableAllocations = "allocations"
	TableEvaluations = "evaluations"
	TableNodes       = "nodes"
)

// SchemaVersion is the version of the file's layout that this package writes.
const SchemaVersion = 1

// Options says how to open a control plane. The zero value keeps everything in memory.
type Options struct {
	// Path is the bbolt file; empty: nothing outlives the process.
	Path string
	// SetAside renames a damaged file and starts with an empty one, which the log
	// tells; otherwise Open refuses it.
	SetAside bool
	// Logger may be nil.
	Logger hclog.Logger
	// Limits bounds what is kept of what has ended. The zero value is
	// DefaultLimits.
	Limits Limits
	// GroupFaults finds what the nodes would refuse of a job's group, a line each;
	// optional. The group is canonicalised.
	GroupFaults func(*nomad.TaskGroup) []string
}

// Server is the control plane as package httpapi needs it; [Server.ForNode] is its other
// side, the node.ControlPlane. All methods may be called concurrently; what they return is read-only. A
// missing object is nil from a read, and an [errdefs.NotFound] from a
// write. After Close every write is errdefs.Unavailable.
type Server struct {
	logger hclog.Logger
	file   file // nil: in memory
	limits Limits
	faults func(*nomad.TaskGroup) []string // of a group; never nil
	now    func() time.Time
	newID  func() string

	mu     sync.RWMutex // guards data, index, changed and nodeIndexes
	data   tables
	index  uint64
	tables map[string]*tableIndex
	// nodeIndexes is, by node ID, when what the node is to run changed last.
	nodeIndexes map[string]uint64

	operations uint64 // of the writer: done since Open

	queueMu sync.Mutex
	queue   []*operation
	closed  bool
	wake    chan struct{} // capacity 1: a reminder, not a queue
	stop    chan struct{} // closed when the server closes
	ended   chan struct{} // closed when the writer has ended
}

// file is what is asked of a boltfile.File.
type file interface {
	Path() string
	Write(ops ...boltfile.Op) error
	View(read func(*bbolt.Tx) error) error
	Close() error
}

// tableIndex is when a table changed last, and who waits for the next time.
type tableIndex struct {
	index   uint64
	changed chan struct{} // closed and replaced at a change
}

// tables is everything that is kept. Rows are immutable.
type tables struct {
	jobs   map[jobKey]*job
	specs  map[uint64]*spec // by JobModifyIndex
	allocs map[string]*schedule.Alloc
	evals  map[string]*nomad.Evaluation
	nodes  map[string]*structs.Node
	byJob  map[jobKey]map[string]*schedule.Alloc
}

// jobKey names a job.
type jobKey struct{ namespace, id string }

// job is a job's row.
type job struct {
	*nomad.Job // the current version, with status and indexes
	// since is the JobModifyIndex with which the job was last started.
	since uint64
	// versions are the kept versions' JobModifyIndexes, newest first; the first is
	// the current one's.
	versions []uint64
}

// spec is one version of a job as it was registered.
type spec struct {
	*nomad.Job
	submission *nomad.JobSubmission
}

func keyOf(j *nomad.Job) jobKey { return jobKey{*j.Namespace, *j.ID} }

// Open opens or creates a control plane. Errors are those of boltfile.Open. The
// caller closes it.
func Open(opts Options) (*Server, error) {
	s := &Server{
		logger:      opts.Logger,
		limits:      opts.Limits,
		faults:      opts.GroupFaults,
		now:         time.Now,
		newID:       uuid.NewString,
		data:        newTables(),
		tables:      map[string]*tableIndex{},
		nodeIndexes: map[string]uint64{},
		wake:        make(chan struct{}, 1),
		stop:        make(chan struct{}),
		ended:       make(chan struct{}),
	}
	if s.logger == nil {
		s.logger = hclog.NewNullLogger()
	}
	if s.faults == nil {
		s.faults = func(*nomad.TaskGroup) []string { return nil }
	}
	if s.limits == (Limits{}) {
		s.limits = DefaultLimits
	}
	if opts.Path != "" {
		f, err := boltfile.Open(opts.Path, boltfile.Options{
			Kind:     "control plane",
			Schema:   SchemaVersion,
			SetAside: opts.SetAside,
			Logger:   s.logger,
		})
		if err != nil {
			return nil, err
		}
		s.file = f
		if err := s.load(); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	for _, name := range []string{TableJobs, TableAllocations, TableEvaluations, TableNodes} {
		s.tables[name] = &tableIndex{index: s.index, changed: make(chan struct{})}
	}
	for id := range s.data.nodes {
		s.nodeIndexes[id] = s.index
	}
	go s.writeLoop()
	return s, nil
}

func newTables() tables {
	return tables{
		jobs:   map[jobKey]*job{},
		specs:  map[uint64]*spec{},
		allocs: map[string]*schedule.Alloc{},
		evals:  map[string]*nomad.Evaluation{},
		nodes:  map[string]*structs.Node{},
		byJob:  map[jobKey]map[string]*schedule.Alloc{},
	}
}

// Close ends when the writes that were begun have ended. Waits and blocked reads
// return. It is idempotent.
func (s *Server) Close() error {
	s.queueMu.Lock()
	if !s.closed {
		s.closed = true
		close(s.stop)
	}
	s.queueMu.Unlock()
	<-s.ended
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

var errClosed = errdefs.NewRecoverable(errdefs.Unavailable, "the control plane is shutting down")

func notFound(format string, args ...any) error {
	return errdefs.New(errdefs.NotFound, format, args...)
}

// Index is the index of a table's last change; 0 for a table that is none.
func (s *Server) Index(table string) uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if t := s.tables[table]; t != nil {
		return t.index
	}
	return 0
}

// Wait returns when the table's index is above index, when ctx is done, or when the
// control plane closes.
func (s *Server) Wait(ctx context.Context, table string, index uint64) {
	for {
		s.mu.RLock()
		t := s.tables[table]
		if t == nil || t.index > index {
			s.mu.RUnlock()
			return
		}
		changed := t.changed
		s.mu.RUnlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-s.stop:
			return
		}
	}
}

// read returns what find finds in one consistent view.
func read[T any](s *Server, find func(*tables) T) T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return find(&s.data)
}

// Jobs returns all jobs, in no order.
func (s *Server) Jobs() []*nomad.Job {
	return read(s, func(t *tables) (list []*nomad.Job) {
		for _, j := range t.jobs {
			list = append(list, j.Job)
		}
		return list
	})
}

// Job returns a job's current version.
func (s *Server) Job(namespace, id string) *nomad.Job {
	return read(s, func(t *tables) *nomad.Job {
		if j := t.jobs[jobKey{namespace, id}]; j != nil {
			return j.Job
		}
		return nil
	})
}

// JobVersions returns a job's kept versions, newest first.
func (s *Server) JobVersions(namespace, id string) []*nomad.Job {
	return read(s, func(t *tables) (list []*nomad.Job) {
		j := t.jobs[jobKey{namespace, id}]
		if j == nil {
			return nil
		}
		list = append(list, j.Job)
		for _, index := range j.versions[1:] {
			if sp := t.specs[index]; sp != nil {
				list = append(list, sp.Job)
			}
		}
		return list
	})
}

// JobSubmission returns the source that a version was submitted with, nil when there
// was none or the version is not kept.
func (s *Server) JobSubmission(namespace, id string, version uint64) *nomad.JobSubmission {
	return read(s, func(t *tables) *nomad.JobSubmission {
		j := t.jobs[jobKey{namespace, id}]
		if j == nil {
			return nil
		}
		for _, index := range j.versions {
			if sp := t.specs[index]; sp != nil && *sp.Version == version {
				return sp.submission
			}
		}
		return nil
	})
}

// JobSummary counts a job's allocations by group, with zeros for an unknown job.
func (s *Server) JobSummary(namespace, id string) *nomad.JobSummary {
	return read(s, func(t *tables) *nomad.JobSummary {
		key := jobKey{namespace, id}
		sum := &nomad.JobSummary{
			JobID:     id,
			Namespace: namespace,
			Summary:   map[string]nomad.TaskGroupSummary{},
			Children:  &nomad.JobChildrenSummary{},
		}
		if j := t.jobs[key]; j != nil {
			sum.CreateIndex, sum.ModifyIndex = *j.CreateIndex, *j.ModifyIndex
			for _, g := range j.TaskGroups {
				sum.Summary[*g.Name] = nomad.TaskGroupSummary{}
			}
		}
		for _, a := range t.byJob[key] {
			g := sum.Summary[a.TaskGroup]
			switch a.ClientStatus {
			case structs.ClientPending:
				g.Starting++
			case structs.ClientRunning:
				g.Running++
			case structs.ClientComplete:
				g.Complete++
			case structs.ClientFailed:
				g.Failed++
			case structs.ClientLost:
				g.Lost++
			}
			sum.Summary[a.TaskGroup] = g
			sum.ModifyIndex = max(sum.ModifyIndex, a.ModifyIndex)
		}
		for _, e := range t.evals {
			if e.Status == nomad.EvalStatusBlocked && e.JobID == id && e.Namespace == namespace {
				for name, n := range e.QueuedAllocations {
					g := sum.Summary[name]
					g.Queued = n
					sum.Summary[name] = g
				}
			}
		}
		return sum
	})
}

// JobAllocations returns a job's allocations, oldest first; also those of a job that
// was purged, as long as they are kept.
func (s *Server) JobAllocations(namespace, id string) []*structs.Allocation {
	return read(s, func(t *tables) (list []*structs.Allocation) {
		for _, a := range t.byJob[jobKey{namespace, id}] {
			list = append(list, a.Allocation)
		}
		sortAllocations(list)
		return list
	})
}

// JobEvaluations returns a job's evaluations, newest first.
func (s *Server) JobEvaluations(namespace, id string) []*nomad.Evaluation {
	return read(s, func(t *tables) (list []*nomad.Evaluation) {
		for _, e := range t.evals {
			if e.JobID == id && e.Namespace == namespace {
				list = append(list, e)
			}
		}
		slices.SortFunc(list, func(a, b *nomad.Evaluation) int {
			return cmp.Or(cmp.Compare(b.CreateIndex, a.CreateIndex), cmp.Compare(a.ID, b.ID))
		})
		return list
	})
}

// Allocations returns all allocations, oldest first.
func (s *Server) Allocations() []*structs.Allocation {
	return read(s, func(t *tables) []*structs.Allocation {
		list := make([]*structs.Allocation, 0, len(t.allocs))
		for _, a := range t.allocs {
			list = append(list, a.Allocation)
		}
		sortAllocations(list)
		return list
	})
}

func sortAllocations(list []*structs.Allocation) {
	slices.SortFunc(list, func(a, b *structs.Allocation) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.ID, b.ID))
	})
}

// Allocation returns an allocation by its full ID.
func (s *Server) Allocation(id string) *structs.Allocation {
	return read(s, func(t *tables) *structs.Allocation {
		if a := t.allocs[id]; a != nil {
			return a.Allocation
		}
		return nil
	})
}

// Evaluations returns all evaluations, in no order.
func (s *Server) Evaluations() []*nomad.Evaluation {
	return read(s, func(t *tables) []*nomad.Evaluation {
		list := make([]*nomad.Evaluation, 0, len(t.evals))
		for _, e := range t.evals {
			list = append(list, e)
		}
		return list
	})
}

// Evaluation returns an evaluation by its full ID.
func (s *Server) Evaluation(id string) *nomad.Evaluation {
	return read(s, func(t *tables) *nomad.Evaluation { return t.evals[id] })
}

// Nodes returns all nodes, in no order.
func (s *Server) Nodes() []*structs.Node {
	return read(s, func(t *tables) []*structs.Node {
		list := make([]*structs.Node, 0, len(t.nodes))
		for _, n := range t.nodes {
			list = append(list, n)
		}
		return list
	})
}

// Node returns a node by its full ID.
func (s *Server) Node(id string) *structs.Node {
	return read(s, func(t *tables) *structs.Node { return t.nodes[id] })
}
