package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/semaphore"

	"github.com/wasmnode/wasmnode/internal/tracing"
	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/runners/watcher"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// firstFingerprintWait bounds how long anything waits for plugins that have not answered
// before it goes on without them (Nomad's 50 s: slow drivers must not lose their tasks).
const firstFingerprintWait = 50 * time.Second

// Config configures a node. ControlPlane, State, Dispense, DriversReady,
// AllocsDir and Logger are required.
type Config struct {
	Logger       hclog.Logger
	ControlPlane ControlPlane
	State        state.DB
	Dispense     task.Dispense
	// DestroyNetwork has a driver let go of what it made for an allocation's network, and asks it
	// again later when it fails; optional: drivers make nothing.
	DestroyNetwork func(ctx context.Context, driver, allocID string) error
	// Devices has devices reserved for the tasks, and measured; optional: the node has
	// none.
	Devices Devices
	// Volumes makes dynamic host volumes; optional: there are none.
	Volumes Volumes
	// Elsewhere knows the allocations of other nodes that this one's replace; optional: there are
	// no other nodes.
	Elsewhere watcher.Elsewhere
	// Workloads has what outlived the last agent; optional: nothing does.
	Workloads Workloads
	// BootID is the machine's run; optional: it is not known when the machine was restarted.
	BootID string
	// Stored is called once, before any allocation that was stored is run, with those; nil: nobody
	// is told.
	Stored func(allocs []*structs.Allocation)
	// DriversReady returns when every driver and device plugin has answered its first
	// fingerprint, or when ctx is done.
	DriversReady func(ctx context.Context) error
	// ReadyFor returns when those that an allocation needs have, or when none of them can be
	// expected; optional: they all have.
	ReadyFor  func(ctx context.Context, a *structs.Allocation) error
	AllocsDir string
	// HeardFile is a file whose time of change is when a control plane that wants heartbeats was
	// heard last; empty: that is not kept.
	HeardFile string
	// Identity is what the operator configures about the node: Name, Datacenter, Region,
	// Pool, Class, Meta, Reserved, HTTPAddress and Version. The rest is found out.
	Identity structs.Node
	Limits   task.Limits
	GC       GC
	// Networks gives allocations networks of their own; optional: there are none.
	Networks Networks
	// API serves the node's API to tasks; optional: they have no socket of it.
	API task.API
	// Traces are of tasks that are started; nil: there are none.
	Traces *tracing.Tracer
	// SecretsInMemory has the tasks' secrets directories be in memory; otherwise they are on
	// the disk. The node has an attribute that says which.
	SecretsInMemory bool
	// HostEnv is what tasks that are processes of the machine have of its environment;
	// optional, read-only.
	HostEnv map[string]string
	// Ephemeral: allocations end with the node, and leave nothing.
	Ephemeral bool
	// NoExec refuses to run commands in tasks.
	NoExec bool
}

// Networks is what a node asks of what gives allocations networks of their own.
type Networks interface {
	alloc.Networks
	// Modes are the modes that a group's network may have besides "host", and what the node
	// lacks for each; empty: nothing.
	Modes() map[string]string
	// Versions are those of the plugins that networks are made with, by name.
	Versions() map[string]string
}

// Devices is what a node asks of its device manager.
type Devices interface {
	task.Devices
	// AllStats returns the newest figures of all devices, sorted by group.
	AllStats() []*structs.DeviceGroupStats
	// DeviceStats returns the newest figures of some devices. One that has none is
	// left out.
	DeviceStats(d structs.AllocatedDevice) (*structs.DeviceGroupStats, error)
}

// Node is this machine, as a client of a control plane. Its methods may be called
// concurrently.
type Node struct {
	cfg    Config
	logger hclog.Logger
	self   *self
	report *reporter
	// services keeps what is registered equal to what the runners want.
	services *registrar

	heard    *heard        // when the control plane was
	directed chan struct{} // closed when it has said what is to run, and the runners were told

	ended      wake.Signal   // an allocation has ended, or its end was reported
	destroying chan struct{} // one for each that is being collected; capacity GC.Parallel
	diskUse    func(ctx context.Context, dir string) (diskUse, error)
	machine    func(n *structs.Node, allocsDir string) error // looks at the machine again
	measured   map[string]bool                               // attributes that it found last; used in self.update only
	hostCPU    hostCPU

	// volumeTurns is had by who makes all volumes again, and one of it by who makes one.
	volumeTurns     *semaphore.Weighted
	volumesRestored chan struct{}   // closed when those are there that can be
	running         context.Context // of Run
	end             context.CancelFunc

	metaMu      sync.Mutex
	dynamicMeta map[string]*string // immutable; replaced at each change

	left    *left // what outlived the last agent
	forgets bool  // what was stored here was lost, and the control plane knew the node

	// Of the loop that applies what is wanted:
	assigned map[string]*structs.Allocation // what the node is to know, by ID; without its job
	gone     map[string]bool                // what it is not to know any more, and has something of

	mu sync.Mutex
	// adoption is what the control plane made of what the node knew; nil: it was not asked yet.
	adoption  *structs.Adoption
	waiting   map[string]string // why allocations waited when the last agent ended, by ID
	runners   map[string]*entry
	withCores map[string]*entry           // those of them whose tasks have reserved cores
	marked    map[string]*entry           // those of them that do not just run, see entry.justRuns
	unread    map[string]*unread          // allocations that cannot be read back, by ID
	strays    map[string]*workload.Status // workloads that no task claims, by ID
	dirs      map[string]bool             // allocations of which there is only a directory, by ID
	settled   bool                        // the control plane was asked for those
	restored  bool                        // all that was stored is among them
	closed    bool
}

// entry is an allocation that the node has.
type entry struct {
	runner *alloc.Runner
	// started is set when the allocation was seen to have started: it waits for no others.
	started bool
	// ended is when the allocation became terminal, zero before.
	ended time.Time
	// destroying is set while it is being destroyed.
	destroying bool
	// forgotten: the control plane has let go of it; it is destroyed once it has ended.
	forgotten bool
	// unclaimed is why it is kept although the control plane does not have it; empty: it has.
	unclaimed string
}

// justRuns reports whether nothing is to be decided of an allocation: a node may have
// thousands of those, which are not looked at each time that another one changes.
func (e *entry) justRuns() bool {
	return e.started && e.ended.IsZero() && !e.destroying && !e.forgotten && e.unclaimed == ""
}

// New finds out who this node is and what it has. Nothing runs yet.
func New(cfg Config) (*Node, error) {
	id, forgets, err := identify(&cfg)
	if err != nil {
		return nil, err
	}
	cfg.GC = cfg.GC.withDefaults()
	n := cfg.Identity
	n.ID = id.ID
	if err := fingerprint(&n, cfg.AllocsDir); err != nil {
		return nil, fmt.Errorf("fingerprint: %w", err)
	}
	fingerprintNetworks(&n, cfg.Networks)
	fingerprintSecrets(&n, cfg.SecretsInMemory)
	meta, err := cfg.State.NodeMeta()
	if err != nil {
		return nil, fmt.Errorf("node metadata: %w", err)
	}
	if meta == nil {
		meta = &state.NodeMeta{}
	}
	n.Meta = mergeMeta(cfg.Identity.Meta, meta.Dynamic)
	ended := wake.New()
	running, end := context.WithCancel(context.Background())
	node := &Node{
		cfg:         cfg,
		logger:      cfg.Logger,
		self:        newSelf(&n),
		forgets:     forgets,
		dynamicMeta: meta.Dynamic,
		report:      newReporter(cfg.ControlPlane, n.ID, cfg.Logger, ended.Set),
		services:    newRegistrar(cfg.ControlPlane, n.ID, cfg.Logger),
		ended:       ended,
		directed:    make(chan struct{}),
		heard:       newHeard(cfg.HeardFile, cfg.Logger),
		destroying:  make(chan struct{}, cfg.GC.Parallel),
		diskUse:     measureDisk,
		machine:     fingerprintMachine,
		runners:     map[string]*entry{},
		withCores:   map[string]*entry{},
		marked:      map[string]*entry{},
		unread:      map[string]*unread{},
		strays:      map[string]*workload.Status{},

		volumeTurns: semaphore.NewWeighted(allVolumeTurns), volumesRestored: make(chan struct{}), running: running, end: end,
	}
	node.recall(context.Background())
	return node, nil
}

// identify reads the node's identity, or makes one durable: the one that the control plane
// knows a node of that name by, which forgets then, or else a new one.
func identify(cfg *Config) (id *state.NodeIdentity, forgets bool, err error) {
	id, err = cfg.State.Node()
	if err != nil || id != nil {
		return id, false, wrapIdentity(err)
	}
	known, err := cfg.ControlPlane.NodeID(context.Background(), cfg.Identity.Name)
	if err != nil {
		cfg.Logger.Warn("the control plane was not asked for the node's identity", "error", err)
	}
	if known != "" {
		cfg.Logger.Warn("what the node knew is lost: it goes on as the node that the control plane knows by its name", "node_id", known)
	}
	id = &state.NodeIdentity{ID: cmp.Or(known, uuid.NewString()), SecretID: uuid.NewString()}
	return id, known != "", wrapIdentity(cfg.State.PutNode(id))
}

func wrapIdentity(err error) error {
	if err != nil {
		return fmt.Errorf("node identity: %w", err)
	}
	return nil
}

// ID is the node's ID; it is the same after a restart.
func (n *Node) ID() string { return n.self.get().ID }

// Forgets reports whether this start found nothing of what the node had stored, although the
// control plane knew the node.
func (n *Node) Forgets() bool { return n.forgets }

// Structs returns the node as it is to be registered; read-only.
func (n *Node) Structs() *structs.Node { return n.self.get() }

// UpdateDriver takes a driver's new state; nil: the node has lost the driver. It does
// not block.
func (n *Node) UpdateDriver(name string, info *structs.DriverInfo) { n.self.updateDriver(name, info) }

// RefusePlugin records that a file in the plugin directory is not taken.
func (n *Node) RefusePlugin(file, why string) { n.self.refusePlugin(file, why) }

// UpdateLoading takes the files whose plugins are not there yet, sorted, of a function that is
// called when no other call of it is under way. It does not block.
func (n *Node) UpdateLoading(files func() []string) { n.self.updateLoading(files) }

// Run runs the node until ctx is done and all is shut down. It is called once. Ready is
// called when what was stored is restored, every plugin has answered or was waited for long
// enough, and the control plane knows all that. Allocations are taken before that; each is
// run as soon as its drivers are there. What was stored runs on even while the control plane
// cannot be reached. The error is that of a store that cannot be read.
func (n *Node) Run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, n.end)()
	defer n.end()
	var loops sync.WaitGroup
	loops.Go(func() { n.registerLoop(ctx) })
	loops.Go(func() { n.restoreVolumes(ctx) })
	if err := n.restore(ctx); err != nil {
		cancel()
		loops.Wait()
		n.shutdown()
		return err
	}
	n.self.markReady()
	loops.Go(func() { n.gcLoop(ctx) })
	loops.Go(func() { n.fingerprintLoop(ctx) })
	loops.Go(func() { n.heardLoop(ctx) })
	// Reports go on until the runners have reported their last state.
	reports, endReports := context.WithCancel(context.WithoutCancel(ctx))
	var reporting sync.WaitGroup
	if n.self.awaitKnown(ctx) == nil {
		loops.Go(func() { n.watchLoop(ctx) })
		reporting.Go(func() { n.report.run(reports) })
		reporting.Go(func() { n.services.run(reports, n.mayHave) })
		n.awaitPlugins(ctx, n.cfg.DriversReady)
		if n.self.awaitKnown(ctx) == nil && ctx.Err() == nil {
			ready()
		}
	}
	<-ctx.Done()
	loops.Wait()
	n.shutdown()
	endReports()
	reporting.Wait()
	return nil
}

// awaitPlugins waits for plugins' first fingerprints, for a bounded time.
func (n *Node) awaitPlugins(ctx context.Context, answered func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, firstFingerprintWait)
	defer cancel()
	if err := answered(ctx); err != nil && !errors.Is(err, context.Canceled) {
		n.logger.Warn("continuing without plugins that have not answered yet", "error", err)
	}
}

// shutdown ends all runners, side by side: their tasks go on, unless the node leaves
// nothing.
func (n *Node) shutdown() {
	n.mu.Lock()
	n.closed = true
	all := make([]*alloc.Runner, 0, len(n.runners))
	for _, e := range n.runners {
		all = append(all, e.runner)
	}
	n.mu.Unlock()
	for _, r := range all {
		if n.cfg.Ephemeral {
			r.Destroy()
		} else {
			r.Shutdown()
		}
	}
	for _, r := range all {
		if n.cfg.Ephemeral {
			<-r.DestroyCh()
		} else {
			<-r.ShutdownCh()
		}
	}
}
