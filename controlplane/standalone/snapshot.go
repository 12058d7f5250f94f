package standalone

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.etcd.io/bbolt"

	"github.com/wasmnode/wasmnode/controlplane/snapshot"
	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

var errInMemory = errdefs.New(errdefs.FailedPrecondition, "this control plane has no file: it keeps nothing that could be saved or restored")

// SaveSnapshot writes all that is stored, as it is at one instant. Writers wait for it no
// longer than for any reader, however slow w is; the file grows meanwhile.
func (cp *ControlPlane) SaveSnapshot(w io.Writer) error {
	if cp.file == nil {
		return errInMemory
	}
	return cp.file.View(func(dbtx *bbolt.Tx) error {
		m := snapshot.Meta{Size: dbtx.Size(), Created: time.Now().UTC(), Schema: SchemaVersion}
		if b := dbtx.Bucket([]byte(bucketState)); b != nil {
			if err := json.Unmarshal(b.Get([]byte(keyIndex)), &m.Index); err != nil {
				return fmt.Errorf("%s/%s: %w", bucketState, keyIndex, err)
			}
		}
		for bucket, count := range map[string]*int{
			bucketJobs: &m.Jobs, bucketAllocations: &m.Allocations, bucketEvaluations: &m.Evaluations, bucketNodes: &m.Nodes,
		} {
			if b := dbtx.Bucket([]byte(bucket)); b != nil {
				*count = b.Stats().KeyN
			}
		}
		m.ID = fmt.Sprintf("%d-%d", m.Index, m.Created.UnixMilli())
		return snapshot.Write(w, m, func(out io.Writer) error {
			_, err := dbtx.WriteTo(out)
			return err
		})
	})
}

// RestoreSnapshot checks a whole snapshot, and has it take the place of what is stored when
// the control plane is opened next. Until then nothing changes: what runs now is not in it,
// and is the node's to bring together with it when it starts. Of two that were restored,
// the second counts. A snapshot that is not one, or not for this program, is an
// errdefs.InvalidArgument.
func (cp *ControlPlane) RestoreSnapshot(r io.Reader) error {
	if cp.file == nil {
		return errInMemory
	}
	var refused error
	err := cp.file.Stage(func(w io.Writer) error {
		_, refused = snapshot.Read(r, w)
		return refused
	})
	if refused != nil || errors.Is(err, boltfile.ErrCorrupt) || errors.Is(err, boltfile.ErrNewer) {
		return invalid("%v", err)
	}
	return err
}

// InspectSnapshot reads and checks a whole snapshot.
func InspectSnapshot(r io.Reader) (*snapshot.Meta, error) {
	state, err := os.CreateTemp("", "wasmnode-snapshot-")
	if err != nil {
		return nil, err
	}
	defer state.Close()
	if err := os.Remove(state.Name()); err != nil {
		return nil, err
	}
	m, err := snapshot.Read(r, state)
	if err != nil {
		return nil, err
	}
	return m, boltfile.Verify(state)
}
