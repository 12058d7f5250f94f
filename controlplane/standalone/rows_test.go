package standalone

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/wasmnode/wasmnode/internal/boltfile"
)

// stored is a row, as JSON has it.
type stored = map[string]any

// withEverything is a control plane that has rows of all kinds.
func withEverything(t *testing.T, path string) *ControlPlane {
	t.Helper()
	cp := withNode(t, path)
	run(t, cp, rollout("a"))
	_, _, err := cp.BootstrapACL("")
	require.NoError(t, err)
	require.NoError(t, cp.PutNodePool(nomad.NodePool{Name: "p"}))
	putVariable(t, cp, variable("v", "k", "v"))
	c := *cp.SchedulerConfiguration()
	c.SchedulerAlgorithm = nomad.SchedulerAlgorithmSpread
	_, err = cp.SetSchedulerConfiguration(c, nil)
	require.NoError(t, err)
	require.NoError(t, cp.write(func(t *tx) error {
		t.putVolume(&nomad.HostVolume{ID: "v", Name: "v", Namespace: "default", NodeID: testNode().ID})
		t.touched[TableVolumeClaims] = t.at()
		t.claims.put("c", &nomad.TaskGroupHostVolumeClaim{ID: "c", Namespace: "default", JobID: "a", VolumeID: "v", ModifyIndex: t.at()})
		return nil
	}))
	return cp
}

// storedKeys are the keys of a bucket.
func (cp *ControlPlane) storedKeys(t *testing.T, bucket string) (keys []string) {
	t.Helper()
	require.NoError(t, cp.file.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucket)).ForEach(func(key, _ []byte) error {
			keys = append(keys, string(key))
			return nil
		})
	}))
	require.NotEmpty(t, keys, bucket)
	return keys
}

// spoil changes a stored row behind the control plane's back.
func (cp *ControlPlane) spoil(t *testing.T, bucket, key string, change func(stored)) {
	t.Helper()
	r := stored{}
	require.NoError(t, cp.file.View(func(tx *bbolt.Tx) error {
		d := json.NewDecoder(bytes.NewReader(tx.Bucket([]byte(bucket)).Get([]byte(key))))
		d.UseNumber()
		return d.Decode(&r)
	}))
	change(r)
	op, err := encodeRow(bucket, key, r)
	require.NoError(t, err)
	require.NoError(t, cp.file.Write(op))
}

// One bad row must not keep the machine from starting, nor be believed.
func TestARowThatContradictsItselfIsLeftOut(t *testing.T) {
	set := func(name string, value any) func(stored) { return func(r stored) { r[name] = value } }
	within := func(outer string, change func(stored)) func(stored) {
		return func(r stored) { change(r[outer].(stored)) }
	}
	for name, c := range map[string]struct {
		bucket string
		change func(stored)
		lost   int // rows, with those that refer to it
	}{
		"an evaluation of another ID":      {bucketEvaluations, set("ID", "other"), 1},
		"a node of another ID":             {bucketNodes, set("ID", "other"), 1},
		"a deployment of another ID":       {bucketDeployments, set("ID", "other"), 1},
		"a deployment with no group":       {bucketDeployments, within("TaskGroups", set("other", nil)), 1},
		"a pool of another name":           {bucketNodePools, set("Name", "other"), 1},
		"a variable of another path":       {bucketVariables, set("Path", "other"), 1},
		"a variable with no key":           {bucketVariables, set("Key", ""), 1},
		"a variable with nothing sealed":   {bucketVariables, set("Sealed", nil), 1},
		"a root key of another ID":         {bucketRootKeys, set("KeyID", "other"), 1},
		"a volume of another ID":           {bucketHostVolumes, within("Volume", set("ID", "other")), 1},
		"a row with no volume":             {bucketHostVolumes, set("Volume", nil), 1},
		"a claim of another ID":            {bucketVolumeClaims, set("ID", "other"), 1},
		"an allocation of another ID":      {bucketAllocations, within("Allocation", set("ID", "other")), 1},
		"a row with no allocation":         {bucketAllocations, set("Allocation", nil), 1},
		"an allocation of no version":      {bucketAllocations, set("Spec", 999), 1},
		"a job with no version":            {bucketJobs, set("Versions", []uint64{}), 1},
		"a job of no known version":        {bucketJobs, set("Versions", []uint64{999}), 1},
		"a job of another ID":              {bucketJobs, set("ID", "other"), 1},
		"a version of another job":         {bucketSpecs, within("Job", set("ID", "other")), 1},
		"a version of another index":       {bucketSpecs, within("Job", set("JobModifyIndex", 3)), 5},
		"a version without an index":       {bucketSpecs, within("Job", set("JobModifyIndex", nil)), 5},
		"a version without an ID":          {bucketSpecs, within("Job", set("ID", nil)), 5},
		"a row with no version":            {bucketSpecs, set("Job", nil), 5},
		"a version with nothing but these": {bucketSpecs, within("Job", func(j stored) { keep(j, "ID", "JobModifyIndex", "Namespace") }), 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "server.db")
			cp := withEverything(t, path)
			before := last(t, cp)
			cp.spoil(t, c.bucket, cp.storedKeys(t, c.bucket)[0], c.change)
			require.NoError(t, cp.Close())
			cp = open(t, path)
			require.Equal(t, c.lost, cp.unreadable)
			require.Equal(t, before, last(t, cp))
			_ = memoryOf(t, cp)
		})
	}
}

// keep removes all but some of a row's fields.
func keep(r stored, names ...string) {
	maps.DeleteFunc(r, func(name string, _ any) bool { return !slices.Contains(names, name) })
}

// An index that is lost is found again in the rows: none is given twice.
func TestTheIndexIsAboveThoseOfAllRows(t *testing.T) {
	const high = 1_000_000
	for bucket, outer := range map[string]string{
		bucketEvaluations: "", bucketNodes: "", bucketDeployments: "", bucketNodePools: "", bucketVariables: "", bucketRootKeys: "", bucketJobs: "", bucketAllocations: "Allocation",
		bucketHostVolumes: "Volume", bucketVolumeClaims: "",
	} {
		t.Run(bucket, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "server.db")
			cp := withEverything(t, path)
			cp.spoil(t, bucket, cp.storedKeys(t, bucket)[0], func(r stored) {
				if outer != "" {
					r = r[outer].(stored)
				}
				r["ModifyIndex"] = high
			})
			require.NoError(t, cp.file.Write(boltfile.Op{Bucket: []string{bucketState}, Key: keyIndex, Value: []byte("?")}))
			id := cp.id
			require.NoError(t, cp.Close())
			cp = open(t, path)
			require.EqualValues(t, high, last(t, cp))
			require.Equal(t, 1, cp.unreadable)
			require.NotEqual(t, id, cp.id, "it is another memory")
		})
	}
}

func TestWhatIsOfNoRowIsReadOrNotBelieved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	cp := withNode(t, path)
	require.Equal(t, []string{keyID, keyIndex}, cp.storedKeys(t, bucketState), "what is the default is not stored")
	require.NoError(t, cp.Close())
	cp = withEverything(t, path)
	id, bootstrap := cp.id, cp.aclBootstrap
	require.NotZero(t, bootstrap)
	require.NoError(t, cp.Close())
	cp = open(t, path)
	require.Equal(t, id, cp.id)
	require.Equal(t, bootstrap, cp.aclBootstrap)
	require.Equal(t, nomad.SchedulerAlgorithmSpread, cp.SchedulerConfiguration().SchedulerAlgorithm)

	require.NoError(t, cp.file.Write(boltfile.Op{Bucket: []string{bucketState}, Key: keyScheduler, Value: []byte("?")}))
	require.NoError(t, cp.Close())
	cp = open(t, path)
	require.Equal(t, 1, cp.unreadable)
	require.Equal(t, defaultSchedulerConfig.SchedulerAlgorithm, cp.SchedulerConfiguration().SchedulerAlgorithm)

	require.NoError(t, cp.file.Write(boltfile.Op{Bucket: []string{bucketState}, Key: keyACLBootstrap, Value: []byte("?")}))
	require.NoError(t, cp.Close())
	_, err := Open(Options{Path: path})
	require.ErrorContains(t, err, keyACLBootstrap, "nobody becomes its manager because that is lost")
}

// What one caller does wrong is not another's fault, and what could not be stored has not
// happened.
func TestAnOperationThatBreaksDoesNotBreakOthers(t *testing.T) {
	cp := withNode(t, filepath.Join(t.TempDir(), "server.db"))
	before := last(t, cp)
	refused := errors.New("refused")
	changes := []func(*tx) error{
		func(t *tx) error { t.putPool(&nomad.NodePool{Name: "one"}); return nil },
		func(t *tx) error { t.putPool(&nomad.NodePool{Name: "half"}); panic("broken") },
		func(*tx) error { return refused },
		func(t *tx) error { t.putPool(&nomad.NodePool{Name: "two"}); return nil },
	}
	var batch []*operation
	for _, change := range changes {
		batch = append(batch, &operation{change: change, done: make(chan error, 1)})
	}
	cp.queueMu.Lock() // they come together
	cp.queue = append(cp.queue, batch...)
	cp.queueMu.Unlock()
	cp.wake.Set()
	require.NoError(t, <-batch[0].done)
	require.ErrorContains(t, <-batch[1].done, "internal error: broken")
	require.ErrorIs(t, <-batch[2].done, refused)
	require.NoError(t, <-batch[3].done)
	require.NotNil(t, cp.NodePool("one"))
	require.Nil(t, cp.NodePool("half"))
	require.NotNil(t, cp.NodePool("two"))
	require.Equal(t, before+2, last(t, cp))
}
