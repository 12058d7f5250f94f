package httpapi

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/internal/acl"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// The tables whose indexes blocking queries wait for.
const (
	tableJobs        = "jobs"
	tableAllocations = "allocations"
	tableEvaluations = "evaluations"
	tableNodes       = "nodes"
	tableACLTokens   = "acl_tokens"
	tableScheduler   = "scheduler_config"
	tableDeployments = "deployments"
	tableNodePools   = "node_pools"
	tableVariables   = "variables"
	tableRootKeys    = "root_keys"
	tableServices    = "services"
	tableNamespaces  = "namespaces"
	tableACLPolicies = "acl_policies"
	tableACLRoles    = "acl_roles"

	tableHostVolumes  = "host_volumes"
	tableVolumeClaims = "host_volume_claims"
)

var tables = []string{
	tableJobs, tableAllocations, tableEvaluations, tableNodes, tableACLTokens, tableScheduler, tableDeployments, tableNodePools,
	tableVariables, tableRootKeys, tableServices, tableNamespaces, tableACLPolicies, tableACLRoles, tableHostVolumes, tableVolumeClaims,
}

// ControlPlane is what the API needs of the embedded control plane. What it returns
// is read-only. A missing object is nil, not an error.
type ControlPlane interface {
	// Index is the index of a table's last change.
	Index(table string) uint64
	// Wait returns when the table's index is above index, or ctx is done.
	Wait(ctx context.Context, table string, index uint64)

	RegisterJob(req *structs.JobRegistration) (*structs.JobChange, error)
	// ValidateJob returns every fault of a job, and its warnings.
	ValidateJob(job *nomad.Job) (faults, warnings []string)
	DeregisterJob(req *structs.JobStop) (*structs.JobChange, error)
	Jobs() []*nomad.Job
	Job(namespace, id string) *nomad.Job
	// ChildStatuses are those of the jobs that were launched or dispatched of one.
	ChildStatuses(namespace, id string) []string
	// ForcePeriodic launches a child of a periodic job now.
	ForcePeriodic(namespace, id string) (*structs.JobChange, error)
	// DispatchJob makes a child of a parameterized job.
	DispatchJob(req *structs.JobDispatch) (*structs.JobDispatched, error)
	JobVersions(namespace, id string) []*nomad.Job
	JobSubmission(namespace, id string, version uint64) *nomad.JobSubmission
	JobSummary(namespace, id string) *structs.JobSummary
	JobAllocations(namespace, id string) []*structs.Allocation
	JobEvaluations(namespace, id string) []*structs.Evaluation
	// PlanJob tells what registering a job would do, and does nothing of it.
	PlanJob(job *nomad.Job) (*structs.JobPlan, error)
	// RevertJob registers an earlier version of a job again; unless enforced is nil, the
	// current one has to be that.
	RevertJob(namespace, id string, version uint64, enforced *uint64) (*structs.JobChange, error)
	// SetJobStable sets whether a version is known to work, and returns the change's index.
	SetJobStable(namespace, id string, version uint64, stable bool) (index uint64, err error)
	// TagJobVersion names a version, the current one where version is nil.
	TagJobVersion(namespace, id string, version *uint64, name, description string) (*nomad.JobVersionTag, error)
	UntagJobVersion(namespace, id, name string) error
	// ScaleJob gives a group another count, or remembers what is said of its scaling.
	ScaleJob(namespace, id string, req *nomad.ScalingRequest) (*structs.JobChange, error)
	// JobScalings are a job's last scalings by group, newest first.
	JobScalings(namespace, id string) map[string][]nomad.ScalingEvent
	// ScalingPolicies are those of all jobs that are not stopped, by ID.
	ScalingPolicies() []*nomad.ScalingPolicy
	// EvaluateJob places again what is missing, and returns the evaluation's ID. With
	// reschedule, what failed is replaced whatever its policy says.
	EvaluateJob(namespace, id string, reschedule bool) (string, error)

	Allocations() []*structs.Allocation
	NodeAllocations(id string) []*structs.Allocation
	EvaluationAllocations(id string) []*structs.Allocation
	Allocation(id string) *structs.Allocation
	StopAllocation(id string, noShutdownDelay bool) (evalID string, err error)
	Evaluations() []*structs.Evaluation
	Evaluation(id string) *structs.Evaluation
	// DeleteEvaluations forgets evaluations by ID, or those of which matches, unless it is nil,
	// is true.
	DeleteEvaluations(ids []string, matches func(*structs.Evaluation) (bool, error)) (count int, err error)
	Deployments() []*structs.Deployment
	Deployment(id string) *structs.Deployment
	JobDeployments(namespace, id string) []*structs.Deployment
	// PromoteDeployment promotes the canaries of some groups; of no groups: of all.
	PromoteDeployment(id string, groups []string) (*structs.DeploymentChange, error)
	PauseDeployment(id string, pause bool) (*structs.DeploymentChange, error)
	FailDeployment(id string) (*structs.DeploymentChange, error)
	UnblockDeployment(id string) (*structs.DeploymentChange, error)
	SetAllocationHealth(id string, healthy, unhealthy []string) (*structs.DeploymentChange, error)
	Nodes() []*structs.Node
	Node(id string) *structs.Node
	// SchedulerConfiguration is how the scheduler decides; never nil.
	SchedulerConfiguration() *nomad.SchedulerConfiguration
	// SetSchedulerConfiguration changes that; with check, only the one of that index.
	SetSchedulerConfiguration(c nomad.SchedulerConfiguration, check *uint64) (updated bool, err error)
	SetEligibility(nodeID, eligibility string) (*structs.NodeChange, error)
	// PurgeNode forgets a node that is down, and EvaluateNode has its jobs evaluated.
	PurgeNode(id string) (*structs.NodeChange, error)
	EvaluateNode(id string) (*structs.NodeChange, error)
	NodePools() []*nomad.NodePool
	NodePool(name string) *nomad.NodePool
	PutNodePool(p nomad.NodePool) error
	DeleteNodePool(name string) error
	Namespaces() []*nomad.Namespace
	Namespace(name string) *nomad.Namespace
	// PutNamespace makes or changes a namespace, and DeleteNamespace, where nothing lives in one,
	// removes it. They return the change's index.
	PutNamespace(n nomad.Namespace) (index uint64, err error)
	DeleteNamespace(name, region string) (index uint64, err error)
	// VariablesFrom are what is no secret of up to n variables, in the order of namespaces and
	// paths: those at and after a place, or, backwards, those at and before it.
	VariablesFrom(namespace, path string, backwards bool, n int) []*nomad.VariableMetadata
	Variable(namespace, path string) (*nomad.Variable, error)
	// PutVariable makes or changes a variable; with check, only the one of that index.
	PutVariable(v *nomad.Variable, check *uint64) (put, conflict *nomad.Variable, err error)
	DeleteVariable(namespace, path string, check *uint64) (conflict *nomad.Variable, err error)
	// AcquireVariableLock locks a variable; the conflict is that another holds it.
	AcquireVariableLock(v *nomad.Variable) (locked, conflict *nomad.Variable, err error)
	RenewVariableLock(namespace, path, id string) (*nomad.VariableMetadata, error)
	ReleaseVariableLock(namespace, path, id string) (released, conflict *nomad.VariableMetadata, err error)
	// RootKeys are what variables are sealed with, without the keys themselves.
	RootKeys() []*nomad.RootKeyMeta
	// RotateRootKey has what is written from now on, and with full all there is, sealed with
	// a new key.
	RotateRootKey(full bool) (*nomad.RootKeyMeta, error)
	DeleteRootKey(id string, force bool) error
	// IdentityKeys are the public keys that the tokens of tasks are verified with.
	IdentityKeys() *jose.JSONWebKeySet
	// VerifyIdentity returns the task that a token is of.
	VerifyIdentity(token string) (*structs.Workload, error)
	SetDrain(req *structs.DrainRequest) (*structs.NodeChange, error)
	// Services are the registrations of all services, in no order; those of one, of an
	// allocation or of a job are by their IDs.
	Services() []*structs.ServiceRegistration
	ServicesNamed(namespace, name string) []*structs.ServiceRegistration
	AllocationServices(allocID string) []*structs.ServiceRegistration
	JobServices(namespace, id string) []*structs.ServiceRegistration
	// DeleteService removes a registration, and returns the change's index.
	DeleteService(namespace, id string) (index uint64, err error)
	// HostVolumes are the dynamic ones, in no order, and VolumeAllocations those that mount one
	// and have not ended.
	HostVolumes() []*nomad.HostVolume
	HostVolume(namespace, id string) *nomad.HostVolume
	VolumeAllocations(id string) []*structs.Allocation
	// CreateHostVolume has a volume made by its plugin; RegisterHostVolume finds one that is
	// there. A volume that has an ID is changed.
	CreateHostVolume(ctx context.Context, v *nomad.HostVolume) (*nomad.HostVolume, error)
	RegisterHostVolume(ctx context.Context, v *nomad.HostVolume) (*nomad.HostVolume, error)
	// DeleteHostVolume removes a volume with what it has, and returns the change's index.
	DeleteHostVolume(ctx context.Context, namespace, id string, force bool) (index uint64, err error)
	VolumeClaims() []*nomad.TaskGroupHostVolumeClaim
	DeleteVolumeClaim(namespace, id string) (index uint64, err error)
	// CollectGarbage forgets what has ended and is not needed any more.
	CollectGarbage()

	// EventsFrom is the place of the first batch of events that is kept whose index is at
	// least index, or else of the next that there will be.
	EventsFrom(index uint64) (place uint64)
	// NextEvents waits for the batch at a place. structs.ErrEventsLost: it is kept no more.
	NextEvents(ctx context.Context, place uint64) (*structs.ChangeBatch, error)

	// SaveSnapshot writes all that is stored.
	SaveSnapshot(w io.Writer) error
	// RestoreSnapshot has a snapshot take its place when the agent starts the next time.
	RestoreSnapshot(r io.Reader) error

	// BootstrapACL makes the first token, for a secret or for one that it draws.
	BootstrapACL(secret string) (t *structs.ACLToken, drawn string, err error)
	// ACLPolicies are those that are not built in.
	ACLPolicies() []*structs.ACLPolicy
	ACLPolicy(name string) *structs.ACLPolicy
	PutACLPolicy(p structs.ACLPolicy) (index uint64, err error)
	DeleteACLPolicy(name string) (index uint64, err error)
	// ACLRules are the rules of policies. Those of one that is not there, or cannot be read, are
	// nil.
	ACLRules(policies []string) []*acl.Rules
	ACLRoles() []*structs.ACLRole
	ACLRole(id string) *structs.ACLRole
	// PutACLRole makes a role, or changes the one whose ID it has.
	PutACLRole(r structs.ACLRole) (*structs.ACLRole, error)
	DeleteACLRole(id string) (index uint64, err error)
	// ACLTokenPolicies names the policies that a token has, its roles' too.
	ACLTokenPolicies(t *structs.ACLToken) []string
	// CreateACLToken makes a token of that name, type, policies and roles, by their IDs or
	// names; with a ttl of 0 it does not expire.
	CreateACLToken(t *structs.ACLToken, ttl time.Duration) (made *structs.ACLToken, secret string, err error)
	// UpdateACLToken gives a token that name and type, and those policies and roles.
	UpdateACLToken(accessorID string, t *structs.ACLToken) (*structs.ACLToken, error)
	DeleteACLToken(accessorID string) error
	// ResolveACLToken finds the token of a secret.
	ResolveACLToken(secret string) (*structs.ACLToken, error)
	ACLTokens() []*structs.ACLToken
	ACLToken(accessorID string) *structs.ACLToken
}

// Node is what the API needs of the node itself. An allocation that does not run
// here is errdefs.NotFound.
type Node interface {
	clientapi.Node
	// CheckDriverConfig returns what a driver refuses of a task's config block, a line
	// each; errdefs.Unavailable: the driver is not here.
	CheckDriverConfig(driver string, config map[string]any) (faults []string, err error)
	// Unclaimed is what the node keeps although it is not known to be wanted.
	Unclaimed(ctx context.Context) []structs.Unclaimed
	// Adopt has what is unclaimed under an allocation's ID taken for wanted, and Discard has
	// it ended and its data removed. errdefs.NotFound: nothing is unclaimed under it.
	Adopt(ctx context.Context, allocID string) error
	Discard(ctx context.Context, allocID string) error
}

// Plugins is what the API needs of the plugin catalog.
type Plugins interface {
	// Status lists every plugin file, as JSON can render it.
	Status() any
	// Description is what a plugin says of itself, likewise, with the schemas of its
	// configuration; errdefs.NotFound: none in service has that name.
	Description(name string) (any, error)
	// Log follows what plugins of a name have logged, from the last lines on; nil: none of
	// that name has been loaded.
	Log(name string, lines int) PluginStream
	// Trace follows the calls of plugins of a name, each once it has ended; nil as above.
	Trace(name string) PluginStream
	// Record follows a recording of the calls of plugins of a name, which has at most so many
	// bytes and goes on for at most as long; errdefs.NotFound: none is loaded.
	Record(name string, longest time.Duration, bytes int) (PluginStream, error)
	// RecordBounds are those of what Record is asked for.
	RecordBounds() RecordBounds
}

// RecordBounds bound a recording of a plugin's calls: for how long, and how many bytes of text.
type RecordBounds struct {
	DefaultTime, MaxTime   time.Duration
	DefaultBytes, MaxBytes int
}

// PluginStream is a place in what is told of a plugin. Entries are of what JSON can render,
// with how many before it this reader has lost. One goroutine at a time uses it.
type PluginStream interface {
	// Read returns the next entry; the error is that there is none now.
	Read() (entry any, lost uint64, err error)
	// Wait returns the next entry, once there is one. The error is ctx's.
	Wait(ctx context.Context) (entry any, lost uint64, err error)
	Close()
}

// statusOf maps an error's class to an HTTP status.
func statusOf(err error) int {
	switch errdefs.ClassOf(err) {
	case errdefs.NotFound:
		return http.StatusNotFound
	case errdefs.InvalidArgument, errdefs.FailedPrecondition, errdefs.Unimplemented:
		return http.StatusBadRequest
	case errdefs.PermissionDenied:
		return http.StatusForbidden
	case errdefs.AlreadyExists:
		return http.StatusConflict
	case errdefs.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
