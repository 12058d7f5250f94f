package node

import (
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// CheckDriverConfig returns what a driver refuses of a task's config block. One that is not
// here, or not ready, is errdefs.Unavailable. References are taken as texts: they have their
// values only when the task starts.
func (n *Node) CheckDriverConfig(driver string, config map[string]any) error {
	d, err := n.cfg.Dispense(driver)
	if err != nil {
		return errdefs.New(errdefs.Unavailable, "%s", err)
	}
	defer d.Release()
	if _, err := d.DecodeConfig(config); err != nil {
		return errdefs.New(errdefs.InvalidArgument, "%s", err)
	}
	return nil
}
