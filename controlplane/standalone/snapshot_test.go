package standalone

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs/errdefs"
)

func TestASnapshotSaysWhatIsInIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	cp := withNode(t, path)
	for _, name := range []string{"one", "two"} {
		register(t, cp, testJob(name, "batch", memory(100)))
	}
	var saved bytes.Buffer
	require.NoError(t, cp.SaveSnapshot(&saved))
	m, err := InspectSnapshot(bytes.NewReader(saved.Bytes()))
	require.NoError(t, err)
	require.Equal(t, []int{2, 2, 1}, []int{m.Jobs, m.Allocations, m.Nodes})
	require.NotZero(t, m.Evaluations)
	require.NotZero(t, m.Index)
	require.NotEmpty(t, m.ID)
	require.Equal(t, SchemaVersion, m.Schema)
	require.WithinDuration(t, time.Now(), m.Created, time.Hour)

	cut := saved.Bytes()[:saved.Len()/2]
	_, err = InspectSnapshot(bytes.NewReader(cut))
	require.Error(t, err)
	for name, not := range map[string][]byte{"a part of one": cut, "nothing": nil, "none": []byte("no snapshot")} {
		err := cp.RestoreSnapshot(bytes.NewReader(not))
		require.ErrorIs(t, err, errdefs.InvalidArgument, name)
	}
	require.Error(t, cp.SaveSnapshot(full{}))
	inMemory := withNode(t, "")
	require.ErrorIs(t, inMemory.SaveSnapshot(&saved), errInMemory)
	require.ErrorIs(t, inMemory.RestoreSnapshot(&saved), errInMemory)
}

// full is where nothing can be written.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }
