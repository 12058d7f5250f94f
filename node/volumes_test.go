package node

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/managers/volumes"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// withVolumes is a world whose node makes volumes.
func withVolumes(t *testing.T) (w *world, plugins string) {
	w = newWorld(t)
	plugins = filepath.Join(w.dir, "plugins")
	require.NoError(t, os.Mkdir(plugins, 0o700))
	w.volumes = volumes.New(volumes.Config{Dir: filepath.Join(w.dir, "volumes"), PluginDir: plugins, Logger: hclog.NewNullLogger()})
	return w, plugins
}

func (w *world) createVolume(plugin string) *nomad.HostVolume {
	v, err := w.embedded.CreateHostVolume(w.t.Context(), &nomad.HostVolume{Name: "data", Namespace: "default", PluginID: plugin})
	require.NoError(w.t, err)
	require.Equal(w.t, nomad.HostVolumeStateReady, v.State)
	return v
}

// awaitVolume waits until a volume has a state.
func (w *world) awaitVolume(id string, state nomad.HostVolumeState) {
	for {
		index := w.embedded.Index(standalone.TableHostVolumes)
		if w.embedded.HostVolume("default", id).State == state {
			return
		}
		require.NoError(w.t, w.t.Context().Err())
		w.embedded.Wait(w.t.Context(), standalone.TableHostVolumes, index)
	}
}

const makesVolumes = `#!/bin/sh
[ "$1" = fingerprint ] && echo '{"version": "1.0.0"}' && exit
mkdir -p "$DHV_VOLUMES_DIR/v" && echo '{"path": "'$DHV_VOLUMES_DIR/v'", "bytes": 5}'
`

func TestVolumesAreMadeAgainWhenTheNodeStarts(t *testing.T) {
	w, plugins := withVolumes(t)
	plugin := filepath.Join(plugins, "p")
	require.NoError(t, os.WriteFile(plugin, []byte(makesVolumes), 0o700))
	w.start()
	require.NoError(t, w.node.VolumesReady(t.Context()))
	v := w.createVolume("p")
	require.Equal(t, "1.0.0", w.node.Structs().Attributes["plugins.host_volume.p.version"])
	has := structs.HostVolume{Name: "data", ID: v.ID, Path: v.HostPath}
	require.Equal(t, []structs.HostVolume{has}, w.node.Structs().HostVolumes)

	w.end()
	require.NoError(t, os.Remove(v.HostPath)) // as what is mounted is gone after the machine's restart
	w.start()
	require.NoError(t, w.node.VolumesReady(t.Context()))
	require.DirExists(t, v.HostPath)
	require.Equal(t, []structs.HostVolume{has}, w.node.Structs().HostVolumes)
	require.Equal(t, v.CreateIndex, w.embedded.HostVolume("default", v.ID).CreateIndex)
	w.awaitVolume(v.ID, nomad.HostVolumeStateReady)

	// Without its plugin it is not there, until the plugin is.
	w.end()
	require.NoError(t, os.Rename(plugin, plugin+"-away"))
	require.NoError(t, os.Chmod(plugin+"-away", 0o600))
	w.start()
	require.NoError(t, w.node.VolumesReady(t.Context()))
	w.awaitVolume(v.ID, nomad.HostVolumeStateUnavailable)
	require.Empty(t, w.node.Structs().HostVolumes)
	require.NotContains(t, w.node.Structs().Attributes, "plugins.host_volume.p.version")
	require.NoError(t, os.Chmod(plugin+"-away", 0o700))
	require.NoError(t, os.Rename(plugin+"-away", plugin))
	w.node.RefreshVolumes(t.Context())
	w.awaitVolume(v.ID, nomad.HostVolumeStateReady)
	require.Equal(t, []structs.HostVolume{has}, w.node.Structs().HostVolumes)
}

// stuckVolumes never answer before their node ends: when one is deleted, and made where create is
// set.
type stuckVolumes struct {
	Volumes
	create bool
	begun  chan struct{}
}

func (v stuckVolumes) Create(ctx context.Context, of *nomad.HostVolume) (structs.MadeVolume, error) {
	if !v.create {
		return v.Volumes.Create(ctx, of)
	}
	return structs.MadeVolume{}, v.Delete(ctx, of)
}

func (v stuckVolumes) Delete(ctx context.Context, _ *nomad.HostVolume) error {
	close(v.begun)
	<-ctx.Done()
	return ctx.Err()
}

// What a node was about to do when it ended, the next one does.
func TestWhatWasBegunIsDoneWhenTheNodeStartsAgain(t *testing.T) {
	w, _ := withVolumes(t)
	works := w.volumes
	stuck := stuckVolumes{works, true, make(chan struct{})}
	w.volumes = stuck
	w.start()
	require.NoError(t, w.node.VolumesReady(t.Context()))
	failed := make(chan error, 1)
	go func() {
		_, err := w.embedded.CreateHostVolume(context.Background(), &nomad.HostVolume{Name: "data", Namespace: "default", PluginID: "mkdir"})
		failed <- err
	}()
	<-stuck.begun
	w.end()
	require.ErrorIs(t, <-failed, errdefs.Unavailable)
	id := w.embedded.HostVolumes()[0].ID

	w.volumes = works
	w.start()
	require.NoError(t, w.node.VolumesReady(t.Context()))
	w.awaitVolume(id, nomad.HostVolumeStateReady)
	v := w.embedded.HostVolume("default", id)
	require.DirExists(t, v.HostPath)

	w.end()
	stuck = stuckVolumes{works, false, make(chan struct{})}
	w.volumes = stuck
	w.start()
	require.NoError(t, w.node.VolumesReady(t.Context()))
	go func() {
		_, err := w.embedded.DeleteHostVolume(context.Background(), "default", id, false)
		failed <- err
	}()
	<-stuck.begun
	w.end()
	require.ErrorIs(t, <-failed, errdefs.Unavailable)
	require.DirExists(t, v.HostPath)
	w.volumes = works
	w.start()
	require.NoError(t, w.node.VolumesReady(t.Context()))
	require.Empty(t, w.embedded.HostVolumes())
	require.NoDirExists(t, v.HostPath)
}

func TestATaskHasItsVolumeWhereItWasMade(t *testing.T) {
	w, _ := withVolumes(t)
	w.start()
	require.NoError(t, w.node.VolumesReady(t.Context()))
	v := w.createVolume("mkdir")
	mounts := func(j *nomad.Job) {
		j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"d": {Type: "host", Source: "data"}}
		j.TaskGroups[0].Tasks[0].VolumeMounts = []*nomad.VolumeMount{{Volume: new("d"), Destination: new("/data")}}
	}
	w.run("db", "service", mounts)
	a := w.awaitStatus("db", structs.ClientRunning)
	dir, err := w.node.Directory(a.ID)
	require.NoError(t, err)
	leads, err := os.Readlink(filepath.Join(dir.Path(), "t", "data"))
	require.NoError(t, err)
	require.Equal(t, v.HostPath, leads)

	// Whoever puts a link in its place has nobody mount something else.
	require.NoError(t, os.Remove(v.HostPath))
	require.NoError(t, os.Symlink("/etc", v.HostPath))
	w.run("other", "service", mounts, func(j *nomad.Job) {
		j.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Attempts: new(0), Unlimited: new(false)}
	})
	a = w.awaitStatus("other", structs.ClientFailed)
	events := a.TaskStates["t"].Events
	told := ""
	for _, e := range events {
		told += e.DisplayMessage + "\n"
	}
	require.Contains(t, told, "a link leads from "+v.HostPath+" to /etc now")
}

func TestANodeThatMakesNoVolumesSaysSo(t *testing.T) {
	w := newWorld(t)
	w.start()
	require.NoError(t, w.node.VolumesReady(t.Context()))
	_, err := w.node.CreateVolume(t.Context(), &nomad.HostVolume{})
	require.EqualError(t, err, "the node makes no dynamic host volumes")
	require.EqualError(t, w.node.DeleteVolume(t.Context(), &nomad.HostVolume{}), "the node makes no dynamic host volumes")
}

// TestAVolumeReachesNoOther registers directories that another volume is, has or is in.
func TestAVolumeReachesNoOther(t *testing.T) {
	w, _ := withVolumes(t)
	dir := filepath.Join(w.dir, "volumes")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o700))
	require.NoError(t, os.Symlink("a/b", filepath.Join(dir, "link")))
	w.start()
	register := func(name, path string) error {
		_, err := w.embedded.RegisterHostVolume(t.Context(), &nomad.HostVolume{
			Name: name, Namespace: "default", NodeID: w.node.ID(), HostPath: filepath.Join(dir, path),
		})
		return err
	}
	require.NoError(t, register("first", "a/b"))
	for _, path := range []string{"a/b", "a", "a/b/c", "link", "link/c"} {
		require.ErrorContains(t, register("second", path), `could not place volume "second": the directory `+filepath.Join(dir, "a"))
		require.Len(t, w.node.Structs().HostVolumes, 1, path)
		require.Len(t, w.embedded.HostVolumes(), 1, path)
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "a/bc"), 0o700))
	require.NoError(t, register("second", "a/bc"))
}
