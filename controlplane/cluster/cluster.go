package cluster

import (
	"context"
	"crypto/tls"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// Config configures the connection to a cluster. Servers, Region, Secret and Logger are
// required.
type Config struct {
	// Servers are RPC addresses of servers, "host:port" or a host, whose port is 4647. Others
	// are learned from them.
	Servers []string
	Region  string
	// TLS returns that of a connection to a server, nil for none; optional: they have none.
	TLS func() (*tls.Config, error)
	// NodeTLS returns that of connections to other nodes that have it; optional: they are verified as any.
	NodeTLS func() (*tls.Config, error)
	// Secret returns the node's secret ID, which it made when it was new. It is asked once the
	// node registers.
	Secret func() (string, error)
	// TokenFile is where the token is kept by which servers know the node (Nomad 1.11 and
	// newer), readable by its owner only; empty: it is not kept.
	TokenFile string
	// VolumeFile is where the dynamic host volumes are kept that servers have the node make,
	// readable by its owner only; empty: they are not kept.
	VolumeFile string
	// IntroductionFile has a token that introduces a node that servers do not know. It need not be
	// there: they may let it in without. It is read whenever it is needed.
	IntroductionFile string
	// Handler answers what servers ask of the node; nil: nothing.
	Handler *wire.Handler
	Logger  hclog.Logger

	timing timing
}

// ControlPlane is the servers, as the node sees them. Its methods may be called
// concurrently, and wait while no server answers unless they say otherwise.
type ControlPlane struct {
	cfg     Config
	logger  hclog.Logger
	servers *servers
	token   *token
	volumes *keptVolumes

	mu       sync.Mutex
	node     *structs.Node // as it was registered last; nil: it was not
	secretID string
	refusal  *Trouble // read-only; nil: the servers have taken the node, or were not asked

	events nodeEvents

	pulling sync.Mutex // one pull at a time
	wake    wake.Signal
	pulled  pulled

	renew  atomic.Bool // the next heartbeat asks for another token
	skewed atomic.Bool // the clocks are apart, which was told

	remembered int // bytes of allocations, at most; under mu

	// questions of others that are under way: MaxAsked of each kind
	asked, leftOpen, streamed, resolved places

	sending  sync.Mutex // one report at a time
	lastSent time.Time
}

// Open begins to connect to the servers, and does not wait for that.
func Open(cfg Config) (*ControlPlane, error) {
	list, err := addresses(cfg.Servers)
	if err != nil {
		return nil, err
	}
	token, err := readToken(cfg.TokenFile)
	if err != nil {
		return nil, err
	}
	volumes, err := readVolumes(cfg.VolumeFile)
	if err != nil {
		return nil, err
	}
	cp := &ControlPlane{cfg: cfg, logger: cfg.Logger, token: token, volumes: volumes, wake: wake.New(), pulled: newPulled(), remembered: maxRemembered}
	for _, kind := range []*places{&cp.asked, &cp.leftOpen, &cp.streamed, &cp.resolved} {
		*kind = make(places, MaxAsked)
	}
	cp.servers = connect(list, wire.Options{Handler: cfg.Handler, Logger: cfg.Logger}, cfg.TLS, cfg.Region, cfg.timing)
	return cp, nil
}

// Close ends the connection. Calls that wait return an error.
func (cp *ControlPlane) Close() error {
	cp.servers.close()
	return nil
}

// Connected is the address of the server that the node talks with now; empty: none.
func (cp *ControlPlane) Connected() string { return cp.servers.connected() }

// NodeID implements node.ControlPlane: servers know a node by its ID only.
func (cp *ControlPlane) NodeID(context.Context, string) (string, error) { return "", nil }

// Adopt implements node.ControlPlane: what servers decided is theirs, and nothing of it is
// rebuilt. What the node has and servers do not name is stopped once they were asked.
func (cp *ControlPlane) Adopt(_ context.Context, _ *structs.Node, known *structs.NodeKnowledge) (*structs.Adoption, error) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	for _, k := range known.Allocations {
		cp.pulled.know(k)
	}
	return &structs.Adoption{ControlPlane: "servers of region " + cp.cfg.Region, Index: known.Index}, nil
}

// Claim implements node.ControlPlane: only servers decide which allocations there are.
func (cp *ControlPlane) Claim(context.Context, string, structs.KnownAllocation) error {
	return errdefs.New(errdefs.FailedPrecondition, "the node is a client of servers of region %q: they decide what it runs", cp.cfg.Region)
}

// registered returns the node as it was registered, or errdefs.NotFound for another one.
func (cp *ControlPlane) registered(nodeID string) (n *structs.Node, secretID string, err error) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.node == nil || cp.node.ID != nodeID {
		return nil, "", errdefs.New(errdefs.NotFound, "node %q is not registered", nodeID)
	}
	return cp.node, cp.secretID, nil
}

// request is what every request has.
type request struct {
	Region    string
	Namespace string `codec:",omitempty"`
	AuthToken string
}

// query is what every request has that reads.
type query struct {
	request
	MinQueryIndex uint64
	MaxQueryTime  time.Duration
	AllowStale    bool
}

// asNode is a request with what the node proves who it is with.
func (cp *ControlPlane) asNode(secretID string) request {
	r := request{Region: cp.cfg.Region, AuthToken: cp.token.get()}
	if r.AuthToken == "" {
		r.AuthToken = secretID
	}
	return r
}

// Allocation returns an allocation as far as the servers and the node have told of it, with
// its tasks' states as they were reported last; nil: it is not known. Read-only.
func (cp *ControlPlane) Allocation(id string) *structs.Allocation {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if k := cp.pulled.known[id]; k != nil {
		return k.seen()
	}
	return nil
}

// KnownAllocations are all of the node's, each as Allocation has it, in no order.
func (cp *ControlPlane) KnownAllocations() []*structs.Allocation {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	list := make([]*structs.Allocation, 0, len(cp.pulled.known))
	for _, k := range cp.pulled.known {
		list = append(list, k.seen())
	}
	return list
}

// seen is the allocation with what was reported of it last.
func (k *known) seen() *structs.Allocation {
	if k.reported == nil {
		return k.alloc
	}
	a := *k.alloc
	a.ClientStatus, a.TaskStates = k.reported.ClientStatus, k.reported.TaskStates
	return &a
}
