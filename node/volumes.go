package node

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// Volumes is what a node asks of what makes dynamic host volumes. Doing anything again is as
// doing it once.
type Volumes interface {
	// Plugins are the versions of the plugins that make volumes, by name.
	Plugins(ctx context.Context) map[string]string
	// Create makes a volume, or says where it was made.
	Create(ctx context.Context, v *nomad.HostVolume) (structs.MadeVolume, error)
	// Find says where a volume is that no plugin made.
	Find(v *nomad.HostVolume) (structs.MadeVolume, error)
	// Delete removes a volume with all that it has; of one that no plugin made, nothing.
	Delete(ctx context.Context, v *nomad.HostVolume) error
}

const (
	// allVolumeTurns is more than volumes are made at once.
	allVolumeTurns = 1 << 20
	// refreshVolumes bounds how long is waited for all volumes.
	refreshVolumes = firstFingerprintWait
)

// tellVolume bounds how long a change of a volume waits until the control plane knows the node
// with it: it comes to know that later, too.
const tellVolume = 5 * time.Second

// VolumesReady returns when the volumes are there that an earlier agent has left. The error is
// ctx's.
func (n *Node) VolumesReady(ctx context.Context) error {
	select {
	case <-n.volumesRestored:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// CreateVolume makes a volume, or finds the one that no plugin is to make, and adds it to the
// node. It ends with the node, which is errdefs.Unavailable; its other errors are those of
// [Volumes].
func (n *Node) CreateVolume(ctx context.Context, v *nomad.HostVolume) (structs.MadeVolume, error) {
	if n.cfg.Volumes == nil {
		return structs.MadeVolume{}, errNoVolumes
	}
	ctx, end := n.whileRunning(ctx)
	defer end()
	if err := n.volumeTurns.Acquire(ctx, 1); err != nil {
		return structs.MadeVolume{}, n.volumeError(err)
	}
	defer n.volumeTurns.Release(1)
	made, err := n.makeVolume(ctx, v)
	if err != nil {
		return made, n.volumeError(err)
	}
	n.self.update(func(next *structs.Node) bool { return setVolume(next, v, made) })
	n.told(ctx)
	return made, nil
}

// DeleteVolume removes a volume, and then from the node. Errors are as of CreateVolume.
func (n *Node) DeleteVolume(ctx context.Context, v *nomad.HostVolume) error {
	if n.cfg.Volumes == nil {
		return errNoVolumes
	}
	ctx, end := n.whileRunning(ctx)
	defer end()
	if err := n.volumeTurns.Acquire(ctx, 1); err != nil {
		return n.volumeError(err)
	}
	defer n.volumeTurns.Release(1)
	if err := n.cfg.Volumes.Delete(ctx, v); err != nil {
		return n.volumeError(err)
	}
	n.self.update(func(next *structs.Node) bool { return dropVolume(next, v.ID) })
	n.told(ctx)
	return nil
}

var (
	errNoVolumes = errdefs.New(errdefs.FailedPrecondition, "the node makes no dynamic host volumes")
	errEnding    = errdefs.NewRecoverable(errdefs.Unavailable, "the agent is shutting down")
)

// whileRunning is a context that ends with ctx, or with the node.
func (n *Node) whileRunning(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(n.running, cancel)
	return ctx, func() { stop(); cancel() }
}

// volumeError is an error of a call that may have ended because the node does.
func (n *Node) volumeError(err error) error {
	if n.running.Err() != nil {
		return errEnding
	}
	return err
}

// told returns when the control plane knows what the node is now, or was waited for.
func (n *Node) told(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tellVolume)
	defer cancel()
	_ = n.self.awaitKnown(ctx) // errors: it is told when it can be
}

func (n *Node) makeVolume(ctx context.Context, v *nomad.HostVolume) (structs.MadeVolume, error) {
	if v.PluginID == "" {
		return n.cfg.Volumes.Find(v)
	}
	return n.cfg.Volumes.Create(ctx, v)
}

// RefreshVolumes looks for volume plugins again, and for volumes that could not be made when
// the agent started. It waits for a bounded time.
func (n *Node) RefreshVolumes(ctx context.Context) {
	if n.cfg.Volumes == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, refreshVolumes)
	defer cancel()
	if err := n.volumeTurns.Acquire(ctx, allVolumeTurns); err != nil {
		tellUnlessStopped(ctx, n.logger, "host volumes are not looked for again, since some are being made", err)
		return
	}
	defer n.volumeTurns.Release(allVolumeTurns)
	plugins := n.cfg.Volumes.Plugins(ctx)
	n.self.update(func(next *structs.Node) bool { return setVolumePlugins(next, plugins) })
	volumes, err := n.cfg.ControlPlane.NodeVolumes(ctx, n.ID())
	if err != nil {
		tellUnlessStopped(ctx, n.logger, "the dynamic host volumes are not known", err)
		return
	}
	var all sync.WaitGroup
	for _, v := range volumes {
		all.Go(func() { n.restoreVolume(ctx, v) })
	}
	all.Wait()
}

// restoreVolumes has the plugins make again what they made. What cannot be made is told, and is
// not there.
func (n *Node) restoreVolumes(ctx context.Context) {
	defer close(n.volumesRestored)
	n.RefreshVolumes(ctx)
	n.told(ctx)
}

func (n *Node) restoreVolume(ctx context.Context, v structs.NodeVolume) {
	logger := n.logger.With("volume_id", v.Volume.ID, "name", v.Volume.Name)
	if v.Deleting { // the agent was killed meanwhile
		err := n.cfg.Volumes.Delete(ctx, v.Volume)
		if err == nil {
			err = n.cfg.ControlPlane.VolumeRemoved(ctx, n.ID(), v.Volume.ID)
		}
		if err != nil {
			tellUnlessStopped(ctx, logger, "a host volume that was to be deleted is still there: delete it again", err)
		}
		return
	}
	if has := n.self.get().HostVolume(v.Volume.Name); has != nil && has.ID == v.Volume.ID {
		return
	}
	made, err := n.makeVolume(ctx, v.Volume)
	if err == nil {
		err = n.cfg.ControlPlane.VolumeMade(ctx, n.ID(), v.Volume.ID, made)
	}
	if err != nil {
		tellUnlessStopped(ctx, logger, "a host volume is not there: what asks for it waits until it is made, when the configuration is reloaded or the agent is started again", err)
		return
	}
	n.self.update(func(next *structs.Node) bool {
		if was := next.HostVolume(v.Volume.Name); was != nil && was.ID == "" {
			logger.Warn("a host volume of the configuration is hidden by a dynamic one of its name")
		}
		return setVolume(next, v.Volume, made)
	})
}

// setVolume has a node have a volume, and reports whether it is another then.
func setVolume(n *structs.Node, v *nomad.HostVolume, made structs.MadeVolume) bool {
	is := structs.HostVolume{Name: v.Name, ID: v.ID, Path: made.Path}
	if was := n.HostVolume(v.Name); was != nil && *was == is {
		return false
	}
	n.HostVolumes = slices.DeleteFunc(n.HostVolumes, func(o structs.HostVolume) bool { return o.Name == v.Name || o.ID == v.ID })
	n.HostVolumes = append(n.HostVolumes, is)
	slices.SortFunc(n.HostVolumes, func(a, b structs.HostVolume) int { return cmp.Compare(a.Name, b.Name) })
	return true
}

// dropVolume has a node have a volume no more, and reports whether it had.
func dropVolume(n *structs.Node, id string) bool {
	before := len(n.HostVolumes)
	n.HostVolumes = slices.DeleteFunc(n.HostVolumes, func(o structs.HostVolume) bool { return o.ID == id })
	return len(n.HostVolumes) < before
}

// setVolumePlugins has a node's attributes tell which plugins there are, and reports whether
// they are others then.
func setVolumePlugins(n *structs.Node, plugins map[string]string) bool {
	before := maps.Clone(n.Attributes)
	maps.DeleteFunc(n.Attributes, func(key, _ string) bool { return strings.HasPrefix(key, structs.VolumePluginPrefix) })
	for name, version := range plugins {
		n.Attributes[structs.VolumePluginPrefix+name+".version"] = version
	}
	return !maps.Equal(before, n.Attributes)
}

// tellUnlessStopped logs an error, unless the agent is stopping: its next start tries again.
func tellUnlessStopped(ctx context.Context, logger hclog.Logger, text string, err error) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		logger.Error(text, "error", err)
	}
}
