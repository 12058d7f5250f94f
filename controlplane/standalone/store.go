package standalone

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"go.etcd.io/bbolt"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/structs"
)

// The layout. Values are JSON.
//
//	server/id                 the ID of this memory
//	server/index              the index of the last change
//	jobs/<namespace>\x00<ID>  jobRow
//	parents/<namespace>\x00<ID> parentRow, of the jobs that have children
//	specs/<JobModifyIndex>    specRow: a version of a job; allocations refer to it
//	allocations/<ID>          allocRow
//	evaluations/<ID>          structs.Evaluation
//	nodes/<ID>                structs.Node
//	acl_tokens/<accessor ID>  structs.ACLToken
//	deployments/<ID>          structs.Deployment
//	node_pools/<name>         nomad.NodePool
//	acl_policies/<name>       structs.ACLPolicy
//	acl_roles/<ID>            structs.ACLRole
//	namespaces/<name>         nomad.Namespace
//	variables/<namespace>\x00<path> variableRow
//	root_keys/<ID>            nomad.RootKeyMeta; the key itself is in a file of its own
//	services/<ID>             structs.ServiceRegistration
//	host_volumes/<ID>         structs.NodeVolume
//	host_volume_claims/<ID>   nomad.TaskGroupHostVolumeClaim
//	server/acl_bootstrap      the index at which the first token was made
//	server/scheduler          nomad.SchedulerConfiguration; absent: the default
//
// boltfile adds a bucket "meta" with the file's kind and schema version.
const (
	bucketState       = "server"
	bucketJobs        = "jobs"
	bucketParents     = "parents"
	bucketSpecs       = "specs"
	bucketAllocations = "allocations"
	bucketEvaluations = "evaluations"
	bucketNodes       = "nodes"
	bucketACLTokens   = "acl_tokens"
	bucketDeployments = "deployments"
	bucketNodePools   = "node_pools"
	bucketNamespaces  = "namespaces"
	bucketACLPolicies = "acl_policies"
	bucketACLRoles    = "acl_roles"
	bucketVariables   = "variables"
	bucketRootKeys    = "root_keys"
	bucketServices    = "services"

	bucketHostVolumes  = "host_volumes"
	bucketVolumeClaims = "host_volume_claims"

	keyID           = "id"
	keyIndex        = "index"
	keyACLBootstrap = "acl_bootstrap"
	keyScheduler    = "scheduler"
)

// jobRow is what changes of a job without a new version.
type jobRow struct {
	Namespace, ID     string
	Versions          []uint64 // JobModifyIndexes, newest first
	Since             uint64
	Status            string
	StatusDescription string
	CreateIndex       uint64
	ModifyIndex       uint64
	Scalings          map[string][]nomad.ScalingEvent `json:",omitempty"`
}

func (j *job) row() jobRow {
	return jobRow{
		Namespace:         *j.Namespace,
		ID:                *j.ID,
		Versions:          j.versions,
		Since:             j.since,
		Status:            *j.Status,
		StatusDescription: *j.StatusDescription,
		CreateIndex:       *j.CreateIndex,
		ModifyIndex:       *j.ModifyIndex,
		Scalings:          j.scalings,
	}
}

// specRow is one version of a job.
type specRow struct {
	Job        *nomad.Job
	Submission *nomad.JobSubmission `json:",omitempty"`
}

// allocRow is an allocation whose job is stored once, under its version.
type allocRow struct {
	Allocation  *structs.Allocation
	Spec        uint64               // JobModifyIndex
	Reschedules []structs.Reschedule `json:",omitempty"`
}

func allocRowOf(a *schedule.Alloc) allocRow {
	c := *a.Allocation
	c.Job, c.Reschedules = nil, nil
	return allocRow{&c, *a.Job.JobModifyIndex, a.Reschedules}
}

func (k jobKey) stored() string { return k.namespace + "\x00" + k.id }

// specKey keeps versions in order in the file.
func specKey(index uint64) string { return fmt.Sprintf("%020d", index) }

func encodeRow(bucket, key string, row any) (boltfile.Op, error) {
	value, err := json.Marshal(row)
	if err != nil {
		return boltfile.Op{}, fmt.Errorf("encoding %s/%q: %w", bucket, key, err)
	}
	return boltfile.Op{Bucket: []string{bucket}, Key: key, Value: value}, nil
}

// load reads the file. A row that cannot be read, or contradicts its key, is left out and
// logged: one bad row must not keep the machine from starting.
func (cp *ControlPlane) load() error {
	return cp.file.View(func(dbtx *bbolt.Tx) error {
		if err := cp.loadServer(dbtx); err != nil {
			return err
		}
		loadRows(cp, dbtx, bucketSpecs, cp.loadSpec)
		loadRows(cp, dbtx, bucketJobs, cp.loadJob)
		loadRows(cp, dbtx, bucketParents, cp.loadParent)
		cp.completeParents()
		loadRows(cp, dbtx, bucketAllocations, cp.loadAlloc)
		loadRows(cp, dbtx, bucketEvaluations, func(id string, e *structs.Evaluation) error {
			if err := sameID(id, e.ID); err != nil {
				return err
			}
			cp.data.evals[id] = e
			cp.sawIndex(e.ModifyIndex)
			return nil
		})
		loadRows(cp, dbtx, bucketNodes, func(id string, n *structs.Node) error {
			if err := sameID(id, n.ID); err != nil {
				return err
			}
			cp.data.nodes[id] = n
			cp.sawIndex(n.ModifyIndex)
			return nil
		})
		loadRows(cp, dbtx, bucketDeployments, cp.loadDeployment)
		loadRows(cp, dbtx, bucketNodePools, cp.loadPool)
		loadRows(cp, dbtx, bucketNamespaces, cp.loadNamespace)
		loadRows(cp, dbtx, bucketVariables, cp.loadVariable)
		loadRows(cp, dbtx, bucketRootKeys, cp.loadRootKey)
		loadRows(cp, dbtx, bucketServices, cp.loadService)
		loadRows(cp, dbtx, bucketHostVolumes, cp.loadVolume)
		loadRows(cp, dbtx, bucketVolumeClaims, cp.loadClaim)
		cp.completeNamespaces()
		loadRows(cp, dbtx, bucketACLPolicies, cp.loadACLPolicy)
		loadRows(cp, dbtx, bucketACLRoles, cp.loadACLRole)
		loadRows(cp, dbtx, bucketACLTokens, func(id string, t *structs.ACLToken) error {
			cp.data.tokens[id] = t
			return nil
		})
		return nil
	})
}

// loadServer reads what is of no row. An index that cannot be read is the rows' highest;
// the memory has another ID then.
func (cp *ControlPlane) loadServer(dbtx *bbolt.Tx) error {
	b := dbtx.Bucket([]byte(bucketState))
	if b == nil {
		return nil
	}
	if err := json.Unmarshal(b.Get([]byte(keyIndex)), &cp.index); err != nil {
		cp.leftOut(bucketState, keyIndex, err)
	} else if id := b.Get([]byte(keyID)); id != nil {
		_ = json.Unmarshal(id, &cp.id) // else it has none
	}
	if value := b.Get([]byte(keyScheduler)); value != nil {
		c := new(nomad.SchedulerConfiguration)
		if err := json.Unmarshal(value, c); err != nil {
			cp.leftOut(bucketState, keyScheduler, err)
		} else {
			cp.scheduler = c
			cp.sawIndex(c.ModifyIndex)
		}
	}
	// Whoever comes first may not become its manager because this was lost.
	if value := b.Get([]byte(keyACLBootstrap)); value != nil {
		if err := json.Unmarshal(value, &cp.aclBootstrap); err != nil {
			return fmt.Errorf("%s: %s/%s: %w", cp.file.Path(), bucketState, keyACLBootstrap, err)
		}
	}
	return nil
}

// leftOut tells of a row that cannot be read.
func (cp *ControlPlane) leftOut(bucket, key string, err error) {
	cp.unreadable++
	cp.logger.Error("a stored row cannot be read and is left out",
		"file", cp.file.Path(), "table", bucket, "key", key, "error", err)
}

// sawIndex keeps the index above all that were given to rows, whatever is stored as such.
func (cp *ControlPlane) sawIndex(index uint64) { cp.index = max(cp.index, index) }

var errIncomplete = errors.New("what it refers to is missing")

func sameID(key, id string) error {
	if key != id {
		return fmt.Errorf("it is of %q", id)
	}
	return nil
}

func loadRows[T any](cp *ControlPlane, dbtx *bbolt.Tx, bucket string, add func(key string, row *T) error) {
	b := dbtx.Bucket([]byte(bucket))
	if b == nil {
		return
	}
	// The callback's error is nil always: a bad row is logged, not returned.
	_ = b.ForEach(func(key, value []byte) error {
		row := new(T)
		err := json.Unmarshal(value, row)
		if err == nil {
			err = add(string(key), row)
		}
		if err != nil {
			cp.leftOut(bucket, string(key), err)
		}
		return nil
	})
}

func (cp *ControlPlane) loadSpec(key string, r *specRow) error {
	if r.Job == nil || r.Job.JobModifyIndex == nil || r.Job.ID == nil {
		return errIncomplete
	}
	r.Job.Canonicalize() // what a damaged row lacks is a default, and not nil
	setScalings(r.Job)   // an older binary did not
	index := *r.Job.JobModifyIndex
	if err := sameID(key, specKey(index)); err != nil {
		return err
	}
	cp.data.specs[index] = &spec{r.Job, r.Submission}
	cp.sawIndex(index)
	return nil
}

func (cp *ControlPlane) loadJob(key string, r *jobRow) error {
	name := jobKey{r.Namespace, r.ID}
	if len(r.Versions) == 0 || cp.data.specs[r.Versions[0]] == nil {
		return errIncomplete
	}
	j := *cp.data.specs[r.Versions[0]].Job
	for _, id := range []string{name.stored(), keyOf(&j).stored()} {
		if err := sameID(key, id); err != nil {
			return err
		}
	}
	j.Status, j.StatusDescription = &r.Status, &r.StatusDescription
	j.CreateIndex, j.ModifyIndex = &r.CreateIndex, &r.ModifyIndex
	cp.data.jobs[name] = &job{Job: &j, since: r.Since, versions: r.Versions, scalings: r.Scalings}
	cp.sawIndex(r.ModifyIndex)
	return nil
}

func (cp *ControlPlane) loadParent(key string, r *parentRow) error {
	name := jobKey{r.Namespace, r.ID}
	if err := sameID(key, name.stored()); err != nil {
		return err
	}
	if j := cp.data.jobs[name]; j != nil && isParent(j.Job) {
		cp.data.parents[name] = newParent(j.Job, *r)
	}
	return nil
}

// completeParents has the launches of a job of which nothing is remembered count from when
// it was registered.
func (cp *ControlPlane) completeParents() {
	for key, j := range cp.data.jobs {
		if isParent(j.Job) && cp.data.parents[key] == nil {
			cp.data.parents[key] = newParent(j.Job, parentRow{
				Namespace: key.namespace, ID: key.id, From: time.Unix(0, structs.Deref(j.SubmitTime)).UTC(),
			})
		}
	}
}

func (cp *ControlPlane) loadAlloc(id string, r *allocRow) error {
	sp := cp.data.specs[r.Spec]
	if r.Allocation == nil || sp == nil {
		return errIncomplete
	}
	if err := sameID(id, r.Allocation.ID); err != nil {
		return err
	}
	a := &schedule.Alloc{Allocation: r.Allocation}
	a.Job, a.Reschedules = sp.Job, r.Reschedules
	cp.data.allocs[id] = a
	cp.sawIndex(a.ModifyIndex)
	return nil
}

func (cp *ControlPlane) loadDeployment(id string, d *structs.Deployment) error {
	if err := sameID(id, d.ID); err != nil {
		return err
	}
	for _, g := range d.TaskGroups {
		if g == nil {
			return errIncomplete
		}
	}
	cp.data.deployments[id] = d
	cp.sawIndex(d.ModifyIndex)
	return nil
}
