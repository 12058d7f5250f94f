package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// volumeHost is a node that makes volumes, or does not.
type volumeHost struct {
	err    error
	during func() // unless it is nil, is called while a volume is made or removed
	has    map[string]bool
}

func (h *volumeHost) VolumesReady(ctx context.Context) error { return ctx.Err() }

func (h *volumeHost) CreateVolume(_ context.Context, v *nomad.HostVolume) (structs.MadeVolume, error) {
	if h.during != nil {
		h.during()
	}
	h.has[v.ID] = h.err == nil
	return structs.MadeVolume{Path: "/volumes/" + v.ID}, h.err
}

func (h *volumeHost) DeleteVolume(_ context.Context, v *nomad.HostVolume) error {
	if h.during != nil {
		h.during()
	}
	if h.err == nil {
		delete(h.has, v.ID)
	}
	return h.err
}

// volumesIn are the node's volumes as they are kept in a file, which an agent that starts now
// would find.
func volumesIn(t *testing.T, path string) (*ControlPlane, []structs.NodeVolume) {
	t.Helper()
	kept, err := readVolumes(path)
	require.NoError(t, err)
	cp := &ControlPlane{volumes: kept}
	all, err := cp.NodeVolumes(t.Context(), nodeID)
	require.NoError(t, err)
	return cp, all
}

func TestVolumesAreKeptAtEveryInstant(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volumes")
	cp, all := volumesIn(t, path)
	require.Empty(t, all)
	h := &volumeHost{has: map[string]bool{}}
	vs := cp.Volumes(h)
	v := &nomad.HostVolume{ID: allocID(1), Name: "data", PluginID: "mkdir", Parameters: map[string]string{"key": "secret"}}

	var meanwhile []structs.NodeVolume
	h.during = func() { _, meanwhile = volumesIn(t, path) }
	_, err := vs.CreateVolume(t.Context(), v)
	require.NoError(t, err)
	require.Equal(t, []structs.NodeVolume{{Volume: v, Deleting: true}}, meanwhile, "no server was told of it")
	_, all = volumesIn(t, path)
	require.Equal(t, []structs.NodeVolume{{Volume: v}}, all)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	_, err = vs.CreateVolume(t.Context(), v)
	require.NoError(t, err)
	require.Equal(t, []structs.NodeVolume{{Volume: v}}, meanwhile, "making it again puts nothing at risk")
	h.err = errors.New("the plugin fails")
	_, err = vs.CreateVolume(t.Context(), v)
	require.ErrorContains(t, err, "the plugin fails")
	_, all = volumesIn(t, path)
	require.Equal(t, []structs.NodeVolume{{Volume: v}}, all, "it is as it was")

	require.ErrorContains(t, vs.DeleteVolume(t.Context(), v), "the plugin fails")
	require.Equal(t, []structs.NodeVolume{{Volume: v, Deleting: true}}, meanwhile)
	_, all = volumesIn(t, path)
	require.Equal(t, []structs.NodeVolume{{Volume: v}}, all, "the servers know it still")
	h.err = nil
	require.NoError(t, vs.DeleteVolume(t.Context(), v))
	_, all = volumesIn(t, path)
	require.Empty(t, all)
	require.NoError(t, vs.DeleteVolume(t.Context(), v), "again")

	h.err = errors.New("the plugin fails")
	_, err = vs.CreateVolume(t.Context(), v)
	require.Error(t, err)
	_, all = volumesIn(t, path)
	require.Empty(t, all, "what could not be made is not kept")
}

func TestWhatAKilledAgentHasLeftOfAVolumeIsForgottenOnceItIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volumes")
	cp, _ := volumesIn(t, path)
	require.NoError(t, cp.volumes.put(allocID(1), &keptVolume{Volume: &nomad.HostVolume{ID: allocID(1)}, Making: true}))
	cp, all := volumesIn(t, path)
	require.True(t, all[0].Deleting)
	require.NoError(t, cp.VolumeRemoved(t.Context(), nodeID, allocID(1)))
	_, all = volumesIn(t, path)
	require.Empty(t, all)
}

func TestVolumesThatAreRefused(t *testing.T) {
	cp, _ := volumesIn(t, "")
	h := &volumeHost{has: map[string]bool{}}
	vs := cp.Volumes(h)
	_, err := vs.CreateVolume(t.Context(), &nomad.HostVolume{ID: allocID(1), Name: "data"})
	require.NoError(t, err)
	_, err = vs.CreateVolume(t.Context(), &nomad.HostVolume{ID: allocID(2), Name: "data"})
	require.ErrorIs(t, err, errdefs.AlreadyExists)
	h.during = func() {
		_, err := vs.CreateVolume(t.Context(), &nomad.HostVolume{ID: allocID(3), Name: "more"})
		require.ErrorIs(t, err, errdefs.Unavailable)
		_, err = vs.CreateVolume(t.Context(), &nomad.HostVolume{ID: allocID(4), Name: "more"})
		require.ErrorIs(t, err, errdefs.Unavailable, "two at once of one name")
		require.ErrorIs(t, vs.DeleteVolume(t.Context(), &nomad.HostVolume{ID: allocID(3), Name: "more"}), errdefs.Unavailable)
	}
	_, err = vs.CreateVolume(t.Context(), &nomad.HostVolume{ID: allocID(3), Name: "more"})
	require.NoError(t, err)
	h.during = nil
	for i := len(cp.volumes.byID); i < maxVolumes; i++ {
		id := allocID(100 + i)
		_, err = vs.CreateVolume(t.Context(), &nomad.HostVolume{ID: id, Name: id})
		require.NoError(t, err)
	}
	_, err = vs.CreateVolume(t.Context(), &nomad.HostVolume{ID: allocID(99), Name: "last"})
	require.EqualError(t, err, "the node keeps at most 1024 volumes")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = vs.CreateVolume(over, &nomad.HostVolume{ID: allocID(1), Name: "data"})
	require.ErrorIs(t, err, errdefs.Unavailable)
	require.ErrorIs(t, vs.DeleteVolume(over, &nomad.HostVolume{ID: allocID(1), Name: "data"}), errdefs.Unavailable)
}

// A volume's ID becomes the name of a directory that is removed with all that is in it.
func TestAVolumeWhoseIDIsAPathIsRefused(t *testing.T) {
	cp, _ := volumesIn(t, "")
	h := &volumeHost{has: map[string]bool{}}
	h.during = func() { t.Error("the node was asked") }
	for _, id := range []string{"../../../home", ".", "..", "/", "a/b", "v1", ""} {
		v := &nomad.HostVolume{ID: id, Name: "x", PluginID: "mkdir"}
		require.ErrorIs(t, cp.Volumes(h).DeleteVolume(t.Context(), v), errdefs.InvalidArgument, id)
		_, err := cp.Volumes(h).CreateVolume(t.Context(), v)
		require.ErrorIs(t, err, errdefs.InvalidArgument, id)
	}
}

func TestAFileOfVolumesThatIsDamagedIsToldOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volumes")
	for _, content := range []string{`{"v1`, `{"v1":{}}`, `{"v1":{"Volume":{"ID":"v2"}}}`, `{"..":{"Volume":{"ID":".."}}}`} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := readVolumes(path)
		require.ErrorContains(t, err, path, content)
	}
}
