package standalone

import (
	"encoding/json"
	"fmt"

	nomad "github.com/hashicorp/nomad/api"
	"go.etcd.io/bbolt"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/structs"
)

// The layout. Values are JSON.
//
//	server/index              the index of the last change
//	jobs/<namespace>\x00<ID>  jobRow
//	specs/<JobModifyIndex>    specRow: a version of a job; allocations refer to it
//	allocations/<ID>          allocRow
//	evaluations/<ID>          structs.Evaluation
//	nodes/<ID>                structs.Node
//	acl_tokens/<accessor ID>  structs.ACLToken
//	server/acl_bootstrap      the index at which the first token was made
//
// boltfile adds a bucket "meta" with the file's kind and schema version.
const (
	bucketState       = "server"
	bucketJobs        = "jobs"
	bucketSpecs       = "specs"
	bucketAllocations = "allocations"
	bucketEvaluations = "evaluations"
	bucketNodes       = "nodes"
	bucketACLTokens   = "acl_tokens"

	keyIndex        = "index"
	keyACLBootstrap = "acl_bootstrap"
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
	Spec        uint64                // JobModifyIndex
	Reschedules []schedule.Reschedule `json:",omitempty"`
}

func allocRowOf(a *schedule.Alloc) allocRow {
	c := *a.Allocation
	c.Job = nil
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

// load reads the file. A row that cannot be read is left out and logged: one bad row
// must not keep the machine from starting.
func (cp *ControlPlane) load() error {
	return cp.file.View(func(dbtx *bbolt.Tx) error {
		if b := dbtx.Bucket([]byte(bucketState)); b != nil {
			if err := json.Unmarshal(b.Get([]byte(keyIndex)), &cp.index); err != nil {
				return fmt.Errorf("%s: %s/%s: %w", cp.file.Path(), bucketState, keyIndex, err)
			}
			if value := b.Get([]byte(keyACLBootstrap)); value != nil {
				if err := json.Unmarshal(value, &cp.aclBootstrap); err != nil {
					return fmt.Errorf("%s: %s/%s: %w", cp.file.Path(), bucketState, keyACLBootstrap, err)
				}
			}
		}
		loadRows(cp, dbtx, bucketSpecs, func(_ string, r *specRow) error {
			if r.Job == nil || r.Job.JobModifyIndex == nil {
				return errIncomplete
			}
			cp.data.specs[*r.Job.JobModifyIndex] = &spec{r.Job, r.Submission}
			return nil
		})
		loadRows(cp, dbtx, bucketJobs, cp.loadJob)
		loadRows(cp, dbtx, bucketAllocations, cp.loadAlloc)
		loadRows(cp, dbtx, bucketEvaluations, func(id string, e *structs.Evaluation) error {
			cp.data.evals[id] = e
			return nil
		})
		loadRows(cp, dbtx, bucketNodes, func(id string, n *structs.Node) error {
			cp.data.nodes[id] = n
			return nil
		})
		loadRows(cp, dbtx, bucketACLTokens, func(id string, t *structs.ACLToken) error {
			cp.data.tokens[id] = t
			return nil
		})
		return nil
	})
}

var errIncomplete = fmt.Errorf("what it refers to is missing")

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
			cp.logger.Error("a stored row cannot be read and is left out",
				"file", cp.file.Path(), "table", bucket, "key", string(key), "error", err)
		}
		return nil
	})
}

func (cp *ControlPlane) loadJob(_ string, r *jobRow) error {
	if len(r.Versions) == 0 || cp.data.specs[r.Versions[0]] == nil {
		return errIncomplete
	}
	j := *cp.data.specs[r.Versions[0]].Job
	j.Status, j.StatusDescription = &r.Status, &r.StatusDescription
	j.CreateIndex, j.ModifyIndex = &r.CreateIndex, &r.ModifyIndex
	cp.data.jobs[jobKey{r.Namespace, r.ID}] = &job{Job: &j, since: r.Since, versions: r.Versions}
	return nil
}

func (cp *ControlPlane) loadAlloc(id string, r *allocRow) error {
	sp := cp.data.specs[r.Spec]
	if r.Allocation == nil || sp == nil {
		return errIncomplete
	}
	a := &schedule.Alloc{Allocation: r.Allocation, Reschedules: r.Reschedules}
	a.Job = sp.Job
	cp.data.allocs[id] = a
	key := jobKey{a.Namespace, a.JobID}
	if cp.data.byJob[key] == nil {
		cp.data.byJob[key] = map[string]*schedule.Alloc{}
	}
	cp.data.byJob[key][id] = a
	return nil
}
