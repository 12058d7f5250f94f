package standalone

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// VolumeHost makes and removes dynamic host volumes: the node. Doing either again is as doing
// it once. An error that is errdefs.Unavailable tells that the node ends, and what was asked for
// is done when it starts again.
type VolumeHost interface {
	ID() string
	// VolumesReady returns when what an earlier agent has left is there, or ctx is done.
	VolumesReady(ctx context.Context) error
	CreateVolume(ctx context.Context, v *nomad.HostVolume) (structs.MadeVolume, error)
	DeleteVolume(ctx context.Context, v *nomad.HostVolume) error
}

// SetVolumeHost has a node make volumes. Without one, there are no others than there were. It
// is called before anybody asks for a volume.
func (cp *ControlPlane) SetVolumeHost(h VolumeHost) {
	cp.volumeOps.mu.Lock()
	defer cp.volumeOps.mu.Unlock()
	cp.volumeOps.host = h
}

// volumeOps are the volumes that are being made, changed or removed: one call at a time for each,
// as plugins are promised.
type volumeOps struct {
	mu   sync.Mutex
	host VolumeHost               // nil: none
	held map[string]chan struct{} // by ID; closed when the call has ended
}

// volumeHeld reports whether a volume is being made, changed or removed.
func (cp *ControlPlane) volumeHeld(id string) bool {
	cp.volumeOps.mu.Lock()
	defer cp.volumeOps.mu.Unlock()
	return cp.volumeOps.held[id] != nil
}

// holdVolume waits until nobody else changes a volume, and returns who makes volumes. What is
// returned is called in the end.
func (cp *ControlPlane) holdVolume(ctx context.Context, id string) (host VolumeHost, release func(), err error) {
	ops := &cp.volumeOps
	ops.mu.Lock()
	for ops.held[id] != nil {
		other := ops.held[id]
		ops.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		ops.mu.Lock()
	}
	defer ops.mu.Unlock()
	if ops.host == nil {
		return nil, nil, errdefs.NewRecoverable(errdefs.Unavailable, "the node is not there yet: try again")
	}
	if ops.held == nil {
		ops.held = map[string]chan struct{}{}
	}
	done := make(chan struct{})
	ops.held[id] = done
	return ops.host, func() {
		ops.mu.Lock()
		defer ops.mu.Unlock()
		delete(ops.held, id)
		close(done)
	}, nil
}

// CreateHostVolume has a volume made by its plugin, or made as its definition is now where it has
// the ID of one that is there. The volume becomes the control plane's. It is stored before the
// plugin is asked: whenever the agent is killed, it is there then or made at the next start. When
// the plugin fails, nothing is kept of a new one.
//
// # Errors
//
// errdefs.InvalidArgument: the definition is wrong; errdefs.FailedPrecondition: it cannot be made
// here, or not now; errdefs.NotFound: there is none of that ID.
func (cp *ControlPlane) CreateHostVolume(ctx context.Context, v *nomad.HostVolume) (*nomad.HostVolume, error) {
	v.HostPath, v.CapacityBytes = "", 0 // the plugin's to say
	if v.ID == "" {
		v.PluginID = cmp.Or(v.PluginID, defaultPlugin)
	}
	return cp.makeVolume(ctx, v)
}

// RegisterHostVolume makes a directory that is there known as a volume. It is otherwise as
// CreateHostVolume.
func (cp *ControlPlane) RegisterHostVolume(ctx context.Context, v *nomad.HostVolume) (*nomad.HostVolume, error) {
	switch {
	case v.NodeID == "":
		return nil, invalid("cannot register volume: node ID is required")
	case v.HostPath == "":
		return nil, invalid("cannot register volume: host path is required")
	case v.PluginID != "":
		return nil, invalid("cannot register volume: it has the plugin_id %q, and no plugin is to make it: create it", v.PluginID)
	}
	return cp.makeVolume(ctx, v)
}

func (cp *ControlPlane) makeVolume(ctx context.Context, v *nomad.HostVolume) (*nomad.HostVolume, error) {
	if err := cp.setting().volumeFault(v); err != nil {
		return nil, err
	}
	isNew := v.ID == ""
	if isNew {
		v.ID = cp.newID()
	}
	host, release, err := cp.holdVolume(ctx, v.ID)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := host.VolumesReady(ctx); err != nil {
		return nil, err
	}
	if err := cp.write(func(t *tx) error { return t.beginVolume(v, isNew, host.ID()) }); err != nil {
		return nil, err
	}
	// What is begun is done, also when whoever asked has gone.
	made, err := host.CreateVolume(context.WithoutCancel(ctx), v)
	if err != nil {
		if isNew && errdefs.ClassOf(err) != errdefs.Unavailable {
			err = cp.forgetVolume(v.ID, err)
		}
		return nil, err
	}
	err = cp.write(func(t *tx) error {
		if err := t.checkVolumePath(v, made.Path); err != nil {
			return err
		}
		t.endVolume(v, made)
		return nil
	})
	if err != nil && v.PluginID == "" {
		err = cp.takeBack(context.WithoutCancel(ctx), host, v, isNew, err)
	}
	if err != nil {
		return nil, err
	}
	return cp.HostVolume(v.Namespace, v.ID), nil
}

// forgetVolume takes back that a volume is to be made, and returns why.
func (cp *ControlPlane) forgetVolume(id string, why error) error {
	err := cp.write(func(t *tx) error {
		t.deleteVolume(id)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w; the volume %s is made again at the next start: %w", why, id, err)
	}
	return why
}

// beginVolume completes a definition and finds out whether the volume can be made. A new one is
// stored as pending.
func (t *tx) beginVolume(v *nomad.HostVolume, isNew bool, nodeID string) error {
	if t.namespace(v.Namespace) == nil {
		return invalid("volume validation failed: no such namespace %q", v.Namespace)
	}
	now := t.now.UnixNano()
	if isNew {
		v.CreateTime, v.ModifyTime = now, now
		if len(v.RequestedCapabilities) == 0 {
			v.RequestedCapabilities = []*nomad.HostVolumeCapability{{
				AttachmentMode: nomad.HostVolumeAttachmentModeFilesystem, AccessMode: nomad.HostVolumeAccessModeSingleNodeWriter,
			}}
		}
	} else if err := t.completeUpdate(v); err != nil {
		return err
	}
	v.State, v.ModifyTime = nomad.HostVolumeStatePending, now
	n := t.nodes.get(nodeID)
	if n == nil {
		return errdefs.NewRecoverable(errdefs.Unavailable, "the node is not registered yet: try again")
	}
	if err := t.placeVolume(v, n); err != nil {
		return err
	}
	v.NodeID, v.NodePool = n.ID, cmp.Or(n.Pool, nomad.NodePoolDefault)
	if isNew {
		kept := *v
		t.putVolume(&kept)
	}
	return nil
}

// completeUpdate checks what is to become of a volume that is there, and takes over what cannot
// become another.
func (t *tx) completeUpdate(v *nomad.HostVolume) error {
	row := t.volumes.get(v.ID)
	if row == nil || row.Volume.Namespace != v.Namespace {
		return notFound("cannot update volume %q: volume does not exist", v.ID)
	}
	old := row.Volume
	fault := func(format string, args ...any) error {
		return errdefs.New(errdefs.FailedPrecondition, "validating volume %q update failed: %s", v.ID, fmt.Sprintf(format, args...))
	}
	switch users := t.volumeUsers(old); {
	case row.Deleting:
		return fault("it is to be deleted: delete it again")
	case len(users) > 0:
		return fault("cannot update a volume in use: claimed by allocs (%s)", strings.Join(idsOf(users), ", "))
	case v.Name != old.Name:
		return fault("name cannot be updated: it is %q", old.Name)
	case v.NodeID != "" && v.NodeID != old.NodeID:
		return fault("node ID cannot be updated")
	case v.NodePool != "" && v.NodePool != old.NodePool:
		return fault("node pool cannot be updated")
	case v.PluginID != "" && v.PluginID != old.PluginID:
		return fault("plugin ID cannot be updated: it is %q", old.PluginID)
	case v.RequestedCapacityMaxBytes > 0 && v.RequestedCapacityMaxBytes < old.CapacityBytes:
		return fault("capacity_max (%d) cannot be less than existing provisioned capacity (%d)", v.RequestedCapacityMaxBytes, old.CapacityBytes)
	case (v.HostPath == "") != (old.PluginID != ""):
		return fault("what was created is not registered, and what was registered is not created")
	}
	v.PluginID, v.NodeID, v.NodePool, v.Constraints, v.CreateTime = old.PluginID, old.NodeID, old.NodePool, old.Constraints, old.CreateTime
	if len(v.RequestedCapabilities) == 0 {
		v.RequestedCapabilities = old.RequestedCapabilities
	}
	return nil
}

func idsOf(allocs []*structs.Allocation) (ids []string) {
	for _, a := range allocs {
		ids = append(ids, a.ID)
	}
	return ids
}

// placeVolume says why a volume cannot be on the node; nil: it can.
func (t *tx) placeVolume(v *nomad.HostVolume, n *structs.Node) error {
	fault := func(format string, args ...any) error {
		return errdefs.New(errdefs.FailedPrecondition, "could not place volume %q: %s", v.Name, fmt.Sprintf(format, args...))
	}
	plugin := structs.VolumePluginPrefix + v.PluginID + ".version"
	pool := cmp.Or(n.Pool, nomad.NodePoolDefault)
	switch has := n.HostVolume(v.Name); {
	case v.NodeID != "" && t.nodes.get(v.NodeID) == nil:
		return fault("node %q does not exist", v.NodeID)
	case v.NodeID != "" && v.NodeID != n.ID:
		return fault("node %q is not this agent's, which is %s", v.NodeID, n.ID)
	case v.NodePool != "" && !t.hasPool(v.NodePool):
		return fault("node pool %q does not exist", v.NodePool)
	case v.NodePool != "" && v.NodePool != pool:
		return fault("node ID %q is not in pool %q, but in %q", n.ID, v.NodePool, pool)
	case has != nil && has.ID == "":
		return fault("client.host_volume %q of the node's configuration has that name", v.Name)
	case v.PluginID != "" && n.Attributes[plugin] == "":
		return fault("the node has no host volume plugin %q: it has %s", v.PluginID, strings.Join(volumePluginsOf(n), ", "))
	}
	for _, row := range t.volumesOn(n.ID) {
		switch {
		case row.Volume.Name != v.Name, row.Volume.ID == v.ID:
		case row.Volume.Namespace != v.Namespace:
			return fault("volume name already exists on this node, in another namespace")
		default:
			return fault("volume name already exists on this node: it is that of %s in namespace %q", row.Volume.ID, row.Volume.Namespace)
		}
	}
	if err := t.checkVolumePath(v, filepath.Clean(v.HostPath)); v.HostPath != "" && err != nil {
		return err
	}
	if count := len(t.volumesOn(n.ID)); count >= maxHostVolumes && t.volumes.get(v.ID) == nil {
		return fault("a node has at most %d", maxHostVolumes)
	}
	for _, c := range v.Constraints {
		if !schedule.Meets(c, n) {
			return fault("no node meets constraints: %s %s %s", c.LTarget, c.Operand, c.RTarget)
		}
	}
	return nil
}

// volumePluginsOf are the names of the plugins that a node has told of.
func volumePluginsOf(n *structs.Node) (names []string) {
	for _, key := range slices.Sorted(maps.Keys(n.Attributes)) {
		if name, is := strings.CutPrefix(key, structs.VolumePluginPrefix); is {
			names = append(names, strings.TrimSuffix(name, ".version"))
		}
	}
	return names
}

// takeBack has the node not have a registered volume that could not be stored, or have it as it
// was before.
func (cp *ControlPlane) takeBack(ctx context.Context, host VolumeHost, v *nomad.HostVolume, isNew bool, why error) error {
	if isNew {
		if err := host.DeleteVolume(ctx, v); err != nil { // no plugin made it: nothing is removed
			return fmt.Errorf("%w; the node has it until its next start: %w", why, err)
		}
		return cp.forgetVolume(v.ID, why)
	}
	if old := cp.HostVolume(v.Namespace, v.ID); old != nil {
		if _, err := host.CreateVolume(ctx, old); err != nil {
			return fmt.Errorf("%w; the node has it elsewhere until its next start: %w", why, err)
		}
	}
	return why
}

// checkVolumePath refuses to register a directory that is another volume's, is in one, or has one
// in it: who may mount one would reach the other. What a plugin makes is the operator's to say.
func (t *tx) checkVolumePath(v *nomad.HostVolume, dir string) error {
	if v.PluginID != "" || dir == "" {
		return nil
	}
	within := func(dir, path string) bool {
		return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator))
	}
	for _, row := range t.volumesOn(v.NodeID) {
		if has := row.Volume.HostPath; row.Volume.ID != v.ID && has != "" && (within(has, dir) || within(dir, has)) {
			return errdefs.New(errdefs.FailedPrecondition, "could not place volume %q: the directory %s is of another volume, or has one in it", v.Name, dir)
		}
	}
	return nil
}

// endVolume stores a volume that was made, and gives who waits for it another chance.
func (t *tx) endVolume(v *nomad.HostVolume, made structs.MadeVolume) {
	v.HostPath, v.CapacityBytes = made.Path, made.CapacityBytes
	if n := t.nodes.get(v.NodeID); n != nil {
		if has := n.HostVolume(v.Name); has != nil && has.ID == v.ID {
			v.State = nomad.HostVolumeStateReady
		}
	}
	t.putVolume(v)
	t.nodeChanged()
}

// DeleteHostVolume has a volume removed by its plugin with all that it has, and returns the
// change's index. Whenever the agent is killed, it is there as it was, or removed at the next
// start. One of a node that is gone is forgotten with force only.
//
// # Errors
//
// errdefs.NotFound: there is none of that ID; errdefs.FailedPrecondition: an allocation mounts
// it, or the plugin failed.
func (cp *ControlPlane) DeleteHostVolume(ctx context.Context, namespace, id string, force bool) (index uint64, err error) {
	host, release, err := cp.holdVolume(ctx, id)
	if err != nil {
		return 0, err
	}
	defer release()
	if err := host.VolumesReady(ctx); err != nil {
		return 0, err
	}
	var v *nomad.HostVolume
	if err := cp.write(func(t *tx) (err error) { v, err = t.beginDeletion(namespace, id, host.ID(), force); return err }); err != nil {
		return 0, err
	}
	if v.NodeID == host.ID() {
		if failed := host.DeleteVolume(context.WithoutCancel(ctx), v); failed != nil {
			if errdefs.ClassOf(failed) != errdefs.Unavailable {
				err = cp.write(func(t *tx) error {
					if row := t.volumes.get(id); row != nil { // else a refresh has ended what was begun earlier
						t.markDeleting(row, false)
						t.nodeChanged()
					}
					return nil
				})
			}
			if err != nil {
				return 0, fmt.Errorf("%w; it is tried again at the next start: %w", failed, err)
			}
			return 0, failed
		}
	}
	err = cp.write(func(t *tx) error {
		t.deleteVolume(id)
		index = t.at()
		return nil
	})
	return index, err
}

// beginDeletion remembers that a volume is to be removed. Nothing mounts it from then on.
func (t *tx) beginDeletion(namespace, id, nodeID string, force bool) (*nomad.HostVolume, error) {
	row := t.volumes.get(id)
	if row == nil || row.Volume.Namespace != namespace {
		return nil, notFound("no such volume: %s", id)
	}
	if users := t.volumeUsers(row.Volume); len(users) > 0 {
		return nil, errdefs.New(errdefs.FailedPrecondition, "volume %s in use by allocations: %v", id, idsOf(users))
	}
	if row.Volume.NodeID != nodeID && !force {
		return nil, errdefs.New(errdefs.FailedPrecondition, "volume cannot be removed from unknown node without force=true")
	}
	t.markDeleting(row, true)
	return row.Volume, nil
}
