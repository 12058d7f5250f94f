package alloc

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/runners/task"
)

// driverPause is between two looks for a driver that is not there yet.
const driverPause = 250 * time.Millisecond

// create has a driver make the namespace of the group's network whose tasks can be in no other;
// nil: there is no such driver.
func (h networkHook) create(ctx context.Context) (*os.File, error) {
	var creator task.Driver
	for _, name := range h.drivers() {
		d, err := h.dispense(ctx, name)
		switch {
		case err != nil:
			return nil, err
		case d == nil:
			continue
		}
		defer d.Release()
		if !d.Capabilities().GetCreatesNetworks() {
			continue
		}
		if creator != nil {
			return nil, fmt.Errorf("tasks of the drivers %q and %q cannot share a network: each makes its own", creator.Name(), d.Name())
		}
		creator = d
	}
	if creator == nil {
		return nil, nil
	}
	return creator.CreateNetwork(ctx, h.r.Alloc().ID, h.hostname())
}

// dispense waits for a driver as long as its task would. One that the node does not have is nil:
// its task says so.
func (h networkHook) dispense(ctx context.Context, name string) (task.Driver, error) {
	wait := cmp.Or(h.r.cfg.Limits.DriverWait, task.DefaultDriverWait)
	for end := time.Now().Add(wait); ; {
		d, err := h.r.cfg.Dispense(name)
		switch {
		case err == nil:
			return d, nil
		case !abi.IsRecoverable(err):
			return nil, nil
		case task.IsLoading(err):
			end = time.Now().Add(wait)
		case time.Now().After(end):
			return nil, err
		}
		select {
		case <-time.After(driverPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// letGo has drivers let go of what they have made. One that cannot, or is not there, is asked again
// when it is.
func (h networkHook) letGo() {
	if h.r.cfg.DestroyNetwork == nil {
		return
	}
	for _, name := range h.drivers() {
		if err := h.r.cfg.DestroyNetwork(context.Background(), name, h.r.Alloc().ID); err != nil {
			h.r.logger.Warn("a driver has not let go of the group's network yet, if it made that", "driver", name, "error", err)
		}
	}
}

// drivers are those of the group's tasks, each once.
func (h networkHook) drivers() (names []string) {
	if g := h.r.Alloc().Group(); g != nil {
		for _, t := range g.Tasks {
			names = append(names, t.Driver)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// hostname is the one that the group's network block has.
func (h networkHook) hostname() string {
	if g := h.r.Alloc().Group(); g != nil && len(g.Networks) > 0 {
		return g.Networks[0].Hostname
	}
	return ""
}
