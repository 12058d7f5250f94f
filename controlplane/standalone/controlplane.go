package standalone

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"go.etcd.io/bbolt"

	"github.com/wasmnode/wasmnode/controlplane/standalone/keyring"
	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/internal/acl"
	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/internal/tracing"
	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// The tables whose indexes can be waited for.
const (
	TableJobs        = "jobs"
	TableAllocations = "allocations"
	TableEvaluations = "evaluations"
	TableNodes       = "nodes"
	TableACLTokens   = "acl_tokens"
	TableDeployments = "deployments"
	TableScheduler   = "scheduler_config"
	TableNodePools   = "node_pools"
	TableVariables   = "variables"
	TableRootKeys    = "root_keys"
	TableServices    = "services"
	TableNamespaces  = "namespaces"
	TableACLPolicies = "acl_policies"
	TableACLRoles    = "acl_roles"

	TableHostVolumes  = "host_volumes"
	TableVolumeClaims = "host_volume_claims"
)

// SchemaVersion is the version of the file's layout that this package writes.
const SchemaVersion = 1

// Options configures a control plane. The zero value keeps everything in memory.
type Options struct {
	// Path is the bbolt file, beside which the directory "keyring" has the root keys; empty:
	// nothing outlives the process.
	Path string
	// SetAside renames a damaged file and goes on with its last good copy or, when there is
	// none, an empty file, which the log tells; otherwise Open refuses it.
	SetAside bool
	// Recovered, unless it is nil, is called by Open when it did so.
	Recovered func(boltfile.Recovery)
	// Logger may be nil.
	Logger hclog.Logger
	// Traces are of evaluations; nil: there are none.
	Traces *tracing.Tracer
	// Limits bounds what is kept of what has ended. The zero value is
	// DefaultLimits.
	Limits Limits
	// GroupFaults finds what the nodes would refuse of a job's group, a line each;
	// optional. The group is canonicalised.
	GroupFaults func(*nomad.TaskGroup) []string
	// ACLReset is a file that lets the first token be made again, see
	// [ControlPlane.BootstrapACL]; empty: nothing does.
	ACLReset string
	// ACL: callers have to show tokens. A task reads the variables of its own job only then, see
	// [structs.TaskVariables], and all otherwise, as everybody does.
	ACL bool
	// TokenTTL bounds how long ACL tokens are made for that expire.
	TokenTTL TokenTTL
	// Issuer is the "iss" of the tokens of workloads, a URL; empty: they have none.
	Issuer string
	// EventBuffer is how many batches of events are kept; 0: DefaultEventBuffer.
	EventBuffer int
	// Scheduler is how the scheduler decides as long as [ControlPlane.SetSchedulerConfiguration]
	// has not been called; nil: as Nomad's does. It is not checked.
	Scheduler *nomad.SchedulerConfiguration
}

// ControlPlane is the control plane as package httpapi needs it; [ControlPlane.ForNode] is
// its other side, the node.ControlPlane. All methods may be called concurrently; what they
// return is read-only. A missing object is nil from a read, and an [errdefs.NotFound] from
// a write. After Close every write is errdefs.Unavailable.
type ControlPlane struct {
	traces *tracing.Tracer
	logger hclog.Logger
	file   file // nil: in memory
	limits Limits
	faults func(*nomad.TaskGroup) []string // of a group; never nil
	now    func() time.Time
	newID  func() string

	aclReset     string
	acl          bool                          // as of Options
	tokenTTL     TokenTTL                      // as of Options
	rules        *acl.Book                     // of the policies
	issuer       string                        // as of Options
	aclBootstrap uint64                        // guarded by mu; see tx
	scheduler    *nomad.SchedulerConfiguration // guarded by mu; never nil

	opened time.Time

	ring     *keyring.Ring
	rotating sync.Mutex // while root keys are made and done without; taken before a write

	listStamps listStamps

	// id is the memory's own: one that was lost and begun anew has another.
	id string

	mu     sync.RWMutex // guards data, index, changed and nodeLogs
	data   tables
	index  uint64
	tables map[string]*tableIndex
	// nodeLogs are, by node ID, the last changes of what the node is to know.
	nodeLogs map[string]*nodeLog
	events   *events

	operations  uint64    // of the writer: done since Open
	collectAt   time.Time // of the writer: when it looks next at what has ended
	cannotStore bool      // of the writer: its last change was not stored
	unreadable  int       // rows, in Open

	queueMu sync.Mutex
	queue   []*operation
	closed  bool
	wake    wake.Signal // something is queued

	volumeOps volumeOps

	stop  chan struct{} // closed when the control plane closes
	ended chan struct{} // closed when the writer has ended
}

// file is what is asked of a boltfile.File.
type file interface {
	Path() string
	Write(ops ...boltfile.Op) error
	InUse() int64
	View(read func(*bbolt.Tx) error) error
	Stage(write func(io.Writer) error) error
	Forget() error
	Close() error
}

// tableIndex is when a table changed last, and who waits for the next time.
type tableIndex struct {
	index   uint64
	changed chan struct{} // closed and replaced at a change
}

// tables is everything that is kept. Rows are immutable.
type tables struct {
	jobs        map[jobKey]*job
	specs       map[uint64]*spec // by JobModifyIndex
	allocs      map[string]*schedule.Alloc
	evals       map[string]*structs.Evaluation
	nodes       map[string]*structs.Node
	tokens      map[string]*structs.ACLToken  // by accessor ID
	policies    map[string]*structs.ACLPolicy // by name, but for the built-in one
	roles       map[string]*structs.ACLRole   // by ID
	deployments map[string]*structs.Deployment
	pools       map[string]*nomad.NodePool  // by name, but for the built-in ones
	namespaces  map[string]*nomad.Namespace // by name; without the default one, unless it was changed
	services    map[string]*structs.ServiceRegistration
	parents     map[jobKey]*parent // the jobs that have children
	variables   map[variableKey]*variableRow
	rootKeys    map[string]*nomad.RootKeyMeta // by ID
	volumes     map[string]*structs.NodeVolume
	claims      map[string]*nomad.TaskGroupHostVolumeClaim
	committedIndexes
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
	// scalings are, by group, the last maxScalingEvents, newest first.
	scalings map[string][]nomad.ScalingEvent
}

// with is the row with a changed job.
func (j *job) with(changed *nomad.Job) *job {
	row := *j
	row.Job = changed
	return &row
}

// spec is one version of a job as it was registered.
type spec struct {
	*nomad.Job
	submission *nomad.JobSubmission
}

func keyOf(j *nomad.Job) jobKey { return jobKey{*j.Namespace, *j.ID} }

// Open opens or creates a control plane. Errors are those of boltfile.Open. The
// caller closes it.
func Open(opts Options) (*ControlPlane, error) {
	cp := &ControlPlane{
		logger:    opts.Logger,
		traces:    opts.Traces,
		limits:    opts.Limits,
		faults:    opts.GroupFaults,
		now:       time.Now,
		newID:     uuid.NewString,
		aclReset:  opts.ACLReset,
		acl:       opts.ACL,
		tokenTTL:  opts.TokenTTL,
		issuer:    opts.Issuer,
		ring:      keyring.New(keyringOf(opts.Path)),
		scheduler: firstSchedulerConfig(opts.Scheduler),
		data:      newTables(),
		tables:    map[string]*tableIndex{},
		nodeLogs:  map[string]*nodeLog{},
		events:    newEvents(cmp.Or(opts.EventBuffer, DefaultEventBuffer)),
		wake:      wake.New(),
		stop:      make(chan struct{}),
		ended:     make(chan struct{}),
	}
	if cp.logger == nil {
		cp.logger = hclog.NewNullLogger()
	}
	cp.rules = acl.NewBook(cp.policyText, func(name string, err error) {
		cp.logger.Error("an ACL policy cannot be read, and allows nothing", "policy", name, "error", err)
	})
	if cp.faults == nil {
		cp.faults = func(*nomad.TaskGroup) []string { return nil }
	}
	if cp.limits == (Limits{}) {
		cp.limits = DefaultLimits()
	}
	if opts.Path != "" {
		if err := cp.openFile(opts); err != nil {
			return nil, err
		}
		if err := cp.ring.Sweep(); err != nil { // nobody else is at it: the file is locked
			cp.logger.Warn("what is left of a root key that was being written cannot be removed", "error", err)
		}
	}
	if cp.id == "" {
		cp.id = uuid.NewString() // durable with the first change
	}
	for _, name := range []string{TableJobs, TableAllocations, TableEvaluations, TableNodes, TableACLTokens, TableScheduler, TableDeployments, TableNodePools, TableVariables, TableRootKeys, TableServices, TableHostVolumes, TableVolumeClaims, TableNamespaces, TableACLPolicies, TableACLRoles} {
		cp.tables[name] = &tableIndex{index: cp.index, changed: make(chan struct{})}
	}
	for id := range cp.data.nodes {
		cp.nodeLogs[id] = &nodeLog{index: cp.index, from: cp.index}
	}
	cp.opened = cp.now()
	cp.collectAt = cp.opened.Add(cp.limits.Interval)
	go cp.writeLoop()
	cp.resumeKeys()
	return cp, nil
}

// keyringOf is the directory of the root keys of what a file seals.
func keyringOf(path string) string {
	if path == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(path), "keyring")
}

// openFile reads what is stored.
func (cp *ControlPlane) openFile(opts Options) error {
	recovered := false
	f, err := boltfile.Open(opts.Path, boltfile.Options{
		Kind:     "control plane",
		Schema:   SchemaVersion,
		SetAside: opts.SetAside,
		Recovered: func(r boltfile.Recovery) {
			recovered = true
			if opts.Recovered != nil {
				opts.Recovered(r)
			}
		},
		Restored:  func() { recovered = true },
		CopyEvery: boltfile.DefaultCopyEvery,
		Logger:    cp.logger,
	})
	if err != nil {
		return err
	}
	cp.file = f
	if err := cp.load(); err != nil {
		return errors.Join(err, f.Close())
	}
	cp.reindex()
	if recovered && cp.aclBootstrap == 0 {
		cp.aclBootstrap = max(cp.index, 1) // it may be what was lost; durable with the first change
	}
	return nil
}

// Unreadable is how many stored rows could not be read and were left out. The log names them.
func (cp *ControlPlane) Unreadable() int { return cp.unreadable }

func newTables() tables {
	return tables{
		jobs:        map[jobKey]*job{},
		specs:       map[uint64]*spec{},
		allocs:      map[string]*schedule.Alloc{},
		evals:       map[string]*structs.Evaluation{},
		nodes:       map[string]*structs.Node{},
		tokens:      map[string]*structs.ACLToken{},
		deployments: map[string]*structs.Deployment{},
		pools:       map[string]*nomad.NodePool{},
		namespaces:  map[string]*nomad.Namespace{},
		policies:    map[string]*structs.ACLPolicy{},
		roles:       map[string]*structs.ACLRole{},
		services:    map[string]*structs.ServiceRegistration{},
		parents:     map[jobKey]*parent{},
		variables:   map[variableKey]*variableRow{},
		rootKeys:    map[string]*nomad.RootKeyMeta{},
		volumes:     map[string]*structs.NodeVolume{},
		claims:      map[string]*nomad.TaskGroupHostVolumeClaim{},

		committedIndexes: newIndexes(),
	}
}

// Close ends when the writes that were begun have ended. Waits and blocked reads
// return. It is idempotent.
func (cp *ControlPlane) Close() error {
	cp.queueMu.Lock()
	if !cp.closed {
		cp.closed = true
		close(cp.stop)
	}
	cp.queueMu.Unlock()
	<-cp.ended
	if cp.file == nil {
		return nil
	}
	return cp.file.Close()
}

var errClosed = errdefs.NewRecoverable(errdefs.Unavailable, "the control plane is shutting down")

func notFound(format string, args ...any) error {
	return errdefs.New(errdefs.NotFound, format, args...)
}

func invalid(format string, args ...any) error {
	return errdefs.New(errdefs.InvalidArgument, format, args...)
}

// Index is the index of a table's last change; 0 for an unknown table.
func (cp *ControlPlane) Index(table string) uint64 {
	cp.mu.RLock()
	defer cp.mu.RUnlock()
	if t := cp.tables[table]; t != nil {
		return t.index
	}
	return 0
}

// Wait returns when the table's index is above index, when ctx is done, or when the
// control plane closes.
func (cp *ControlPlane) Wait(ctx context.Context, table string, index uint64) {
	for {
		cp.mu.RLock()
		t := cp.tables[table]
		if t == nil || t.index > index {
			cp.mu.RUnlock()
			return
		}
		changed := t.changed
		cp.mu.RUnlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-cp.stop:
			return
		}
	}
}
