package agent

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/structs"
)

// pluginsReady waits for the first fingerprints of all plugins.
func (a *agent) pluginsReady(ctx context.Context) error {
	err := errors.Join(a.drivers.WaitForFirstFingerprint(ctx), a.devices.WaitForFirstFingerprint(ctx))
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New(a.loadingText())
	}
	return err
}

// pluginsReadyFor waits for the first fingerprints of the plugins that an allocation needs.
func (a *agent) pluginsReadyFor(ctx context.Context, alloc *structs.Allocation) error {
	if group := alloc.Group(); group != nil {
		for _, task := range group.Tasks {
			if err := a.drivers.WaitForDriver(ctx, task.Driver); err != nil {
				return err
			}
		}
	}
	for _, task := range alloc.Resources.Tasks {
		for _, d := range task.Devices {
			if err := a.devices.WaitForGroup(ctx, d.Group()); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadPlugins has the plugins loaded, first those that allocations have been stored for.
func (a *agent) loadPlugins(stored []*structs.Allocation) {
	for _, alloc := range stored {
		if group := alloc.Group(); group != nil && alloc.DesiredStatus == structs.DesiredRun {
			for _, task := range group.Tasks {
				a.catalog.Want(task.Driver)
			}
		}
	}
	a.catalog.Start()
}

// freeMemory gives memory back whenever no plugin is loading any more: reading plugins takes more
// than the agent needs for all else.
func (a *agent) freeMemory(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.loading.C():
		}
		if len(a.catalog.LoadingFiles()) == 0 {
			debug.FreeOSMemory()
		}
	}
}

// currentConditions are the agent's conditions, and what it is still doing now before it is
// all there.
func (a *agent) currentConditions() []structs.Condition {
	all := slices.Concat(a.conditions.list(), a.adoptionConditions(), a.serverConditions())
	if a.node.Structs().Status == structs.NodeInitializing {
		all = append(all, structs.Condition{Name: "restoring", Text: "restoring allocations", Remedy: "wait until it is over; if it does not end, see what the log says: wasmnode monitor"})
	}
	if text := a.loadingText(); text != "" {
		all = append(all, structs.Condition{Name: "plugins", Text: text, Remedy: "wait until it is over; see how far each is: wasmnode plugin status"})
	}
	return all
}

// loadingText tells which plugins are loading; empty: none.
func (a *agent) loadingText() string {
	switch names := a.catalog.LoadingFiles(); {
	case len(names) > 0:
		return "loading plugins: " + strings.Join(names, ", ")
	case a.catalog.Loading():
		return "looking for plugins in " + a.cfg.PluginDir
	}
	return ""
}
