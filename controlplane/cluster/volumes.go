package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/internal/durable"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

const (
	// maxVolumes bounds the dynamic host volumes that servers have a node keep.
	maxVolumes = 1024
	// volumeTimeout bounds what is done with a volume, as in Nomad, also when the server has gone.
	volumeTimeout = time.Minute
)

// keptVolume is a volume as the node has to know it when it starts again: servers do not say which
// ones there are.
type keptVolume struct {
	Volume *nomad.HostVolume
	// Making is set until the volume was made for the first time: what an agent that was killed
	// has left of one is removed, since no server was told of it.
	Making bool `json:",omitempty"`
	// Deleting is set from before what the volume has is removed until it is.
	Deleting bool `json:",omitempty"`
}

// keptVolumes are a node's volumes, as they are kept in a file.
type keptVolumes struct {
	path string // empty: they are not kept

	mu   sync.Mutex
	byID map[string]keptVolume // its values are not changed
	busy map[string]string     // the names of those that are being made or removed, by ID
}

func readVolumes(path string) (*keptVolumes, error) {
	k := &keptVolumes{path: path, byID: map[string]keptVolume{}, busy: map[string]string{}}
	if path == "" {
		return k, nil
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &k.byID)
	}
	for id, v := range k.byID {
		if err == nil && (v.Volume == nil || v.Volume.ID != id || !uuid.MatchString(id)) {
			err = fmt.Errorf("what is under the ID %q is no volume of it", id)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the node's dynamic host volumes: %s: %w", path, err)
	}
	return k, nil
}

// begin has a volume be the caller's alone until the function that it returns is called.
func (k *keptVolumes) begin(v *nomad.HostVolume) (end func(), err error) {
	if !uuid.MatchString(v.ID) { // it becomes the name of a directory
		return nil, errdefs.New(errdefs.InvalidArgument, "a volume's ID is a UUID, and %.40q is none", v.ID)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, name := range k.busy {
		if id == v.ID || name == v.Name {
			return nil, errdefs.NewRecoverable(errdefs.Unavailable, "volume %q is being made or removed: try again later", v.Name)
		}
	}
	for id, other := range k.byID {
		if other.Volume.Name == v.Name && id != v.ID {
			return nil, errdefs.New(errdefs.AlreadyExists, "the node has another volume %q, with the ID %s", v.Name, id)
		}
	}
	if _, known := k.byID[v.ID]; !known && len(k.byID) >= maxVolumes {
		return nil, errdefs.New(errdefs.ResourceExhausted, "the node keeps at most %d volumes", maxVolumes)
	}
	k.busy[v.ID] = v.Name
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.busy, v.ID)
	}, nil
}

// get is a volume as it is kept.
func (k *keptVolumes) get(id string) (v keptVolume, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, known = k.byID[id]
	return v, known
}

// put keeps a volume, or forgets one that is nil, durably.
func (k *keptVolumes) put(id string, v *keptVolume) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := maps.Clone(k.byID)
	if v == nil {
		delete(next, id)
	} else {
		next[id] = *v
	}
	if k.path != "" {
		content, err := json.Marshal(next)
		if err == nil {
			err = durable.Replace(k.path, append(content, '\n'), 0o600)
		}
		if err != nil {
			return fmt.Errorf("the node's dynamic host volumes: %w", err)
		}
	}
	k.byID = next
	return nil
}

// NodeVolumes implements node.VolumeRegistry.
func (cp *ControlPlane) NodeVolumes(context.Context, string) ([]structs.NodeVolume, error) {
	cp.volumes.mu.Lock()
	defer cp.volumes.mu.Unlock()
	all := make([]structs.NodeVolume, 0, len(cp.volumes.byID))
	for _, v := range cp.volumes.byID {
		all = append(all, structs.NodeVolume{Volume: v.Volume, Deleting: v.Deleting || v.Making})
	}
	slices.SortFunc(all, func(a, b structs.NodeVolume) int { return cmp.Compare(a.Volume.ID, b.Volume.ID) })
	return all, nil
}

// VolumeMade implements node.VolumeRegistry: the node's registration tells where it is.
func (cp *ControlPlane) VolumeMade(context.Context, string, string, structs.MadeVolume) error {
	return nil
}

// VolumeRemoved implements node.VolumeRegistry.
func (cp *ControlPlane) VolumeRemoved(_ context.Context, _, id string) error {
	return cp.volumes.put(id, nil)
}

// VolumeHost is the node, as what makes volumes. Its methods are those of node.Node.
type VolumeHost interface {
	VolumesReady(ctx context.Context) error
	CreateVolume(ctx context.Context, v *nomad.HostVolume) (structs.MadeVolume, error)
	DeleteVolume(ctx context.Context, v *nomad.HostVolume) error
}

// Volumes makes and removes the volumes that servers ask for, so that the node has them again when
// it starts the next time. Its methods may be called concurrently.
type Volumes struct {
	kept *keptVolumes
	host VolumeHost
}

// Volumes returns what makes a node's volumes for its servers.
func (cp *ControlPlane) Volumes(host VolumeHost) Volumes { return Volumes{cp.volumes, host} }

// ready waits until the node has the volumes that it had.
func (vs Volumes) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, volumeTimeout)
	defer cancel()
	if err := vs.host.VolumesReady(ctx); err != nil {
		return errdefs.NewRecoverable(errdefs.Unavailable, "the node's volumes are not restored yet: %v", err)
	}
	return nil
}

// CreateVolume makes a volume, or takes up one that no plugin is to make. Doing it again changes
// nothing.
//
// # Errors
//
// errdefs.AlreadyExists: the node has another one of its name. errdefs.Unavailable: it is being
// changed, or the node is not up yet. Others are those of the node.
func (vs Volumes) CreateVolume(ctx context.Context, v *nomad.HostVolume) (made structs.MadeVolume, err error) {
	if err := vs.ready(ctx); err != nil {
		return made, err
	}
	end, err := vs.kept.begin(v)
	if err != nil {
		return made, err
	}
	defer end()
	was, known := vs.kept.get(v.ID)
	if !known {
		if err := vs.kept.put(v.ID, &keptVolume{Volume: v, Making: true}); err != nil {
			return made, err
		}
	}
	// What is begun is done, also when the server has gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), volumeTimeout)
	defer cancel()
	if made, err = vs.host.CreateVolume(ctx, v); err != nil {
		if !known || was.Making {
			err = errors.Join(err, vs.kept.put(v.ID, nil))
		}
		return made, err
	}
	return made, vs.kept.put(v.ID, &keptVolume{Volume: v})
}

// DeleteVolume removes a volume with what it has. One that is not there is removed. Errors are as
// of CreateVolume.
func (vs Volumes) DeleteVolume(ctx context.Context, v *nomad.HostVolume) error {
	if err := vs.ready(ctx); err != nil {
		return err
	}
	end, err := vs.kept.begin(v)
	if err != nil {
		return err
	}
	defer end()
	was, known := vs.kept.get(v.ID)
	if known {
		v = was.Volume // whatever the server calls it
		if err := vs.kept.put(v.ID, &keptVolume{Volume: v, Deleting: true}); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), volumeTimeout)
	defer cancel()
	if err := vs.host.DeleteVolume(ctx, v); err != nil {
		if known {
			err = errors.Join(err, vs.kept.put(v.ID, &was))
		}
		return err
	}
	if !known {
		return nil
	}
	return vs.kept.put(v.ID, nil)
}
