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
//	evaluations/<ID>          api.Evaluation
//	nodes/<ID>                structs.Node
//
// boltfile adds a bucket "meta" with the file's kind and schema version.
const (
	bucketServer      = "server"
	bucketJobs        = "jobs"
	bucketSpecs       = "specs"
	bucketAllocations = "allocations"
	bucketEvaluations = "evaluations"
	bucketNodes       = "nodes"

	keyIndex = "index"
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

// load reads the file. A row that cannot be read is left out and said so: one bad row
// must not keep the machine from starting.
func (s *Server) load() error {
	return s.file.View(func(dbtx *bbolt.Tx) error {
		if b := dbtx.Bucket([]byte(bucketServer)); b != nil {
			if err := json.Unmarshal(b.Get([]byte(keyIndex)), &s.index); err != nil {
				return fmt.Errorf("%s: %s/%s: %w", s.file.Path(), bucketServer, keyIndex, err)
			}
		}
		loadRows(s, dbtx, bucketSpecs, func(_ string, r *specRow) error {
			if r.Job == nil || r.Job.JobModifyIndex == nil {
				return errIncomplete
			}
			s.data.specs[*r.Job.JobModifyIndex] = &spec{r.Job, r.Submission}
			return nil
		})
		loadRows(s, dbtx, bucketJobs, s.loadJob)
		loadRows(s, dbtx, bucketAllocations, s.loadAlloc)
		loadRows(s, dbtx, bucketEvaluations, func(id string, e *nomad.Evaluation) error {
			s.data.evals[id] = e
			return nil
		})
		loadRows(s, dbtx, bucketNodes, func(id string, n *structs.Node) error {
			s.data.nodes[id] = n
			return nil
		})
		return nil
	})
}

var errIncomplete = fmt.Errorf("what it refers to is missing")

func loadRows[T any](s *Server, dbtx *bbolt.Tx, bucket string, add func(key string, row *T) error) {
	b := dbtx.Bucket([]byte(bucket))
	if b == nil {
		return
	}
	// The callback's error is nil always: a bad row is told, not returned.
	_ = b.ForEach(func(key, value []byte) error {
		row := new(T)
		err := json.Unmarshal(value, row)
		if err == nil {
			err = add(string(key), row)
		}
		if err != nil {
			s.logger.Error("a stored row cannot be read and is left out",
				"file", s.file.Path(), "table", bucket, "key", string(key), "error", err)
		}
		return nil
	})
}

func (s *Server) loadJob(_ string, r *jobRow) error {
	if len(r.Versions) == 0 || s.data.specs[r.Versions[0]] == nil {
		return errIncomplete
	}
	j := *s.data.specs[r.Versions[0]].Job
	j.Status, j.StatusDescription = &r.Status, &r.StatusDescription
	j.CreateIndex, j.ModifyIndex = &r.CreateIndex, &r.ModifyIndex
	s.data.jobs[jobKey{r.Namespace, r.ID}] = &job{Job: &j, since: r.Since, versions: r.Versions}
	return nil
}

func (s *Server) loadAlloc(id string, r *allocRow) error {
	sp := s.data.specs[r.Spec]
	if r.Allocation == nil || sp == nil {
		return errIncomplete
	}
	a := &schedule.Alloc{Allocation: r.Allocation, Reschedules: r.Reschedules}
	a.Job = sp.Job
	s.data.allocs[id] = a
	key := jobKey{a.Namespace, a.JobID}
	if s.data.byJob[key] == nil {
		s.data.byJob[key] = map[string]*schedule.Alloc{}
	}
	s.data.byJob[key][id] = a
	return nil
}
