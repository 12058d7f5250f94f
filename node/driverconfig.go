package node

import (
	"github.com/wasmnode/wasmnode/internal/configschema"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// CheckDriverConfig returns what a driver refuses of a task's config block, a line each. One
// that is not here, or not ready, is errdefs.Unavailable. References are taken as texts: they have their
// values only when the task starts.
func (n *Node) CheckDriverConfig(driver string, config map[string]any) (faults []string, err error) {
	d, err := n.cfg.Dispense(driver)
	if err != nil {
		return nil, errdefs.New(errdefs.Unavailable, "%s", err)
	}
	defer d.Release()
	_, err = d.DecodeConfig(config)
	return configschema.Lines(err), nil
}
