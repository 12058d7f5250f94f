package drivers

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/state"
)

// Deadlines of the calls about an allocation's network: making one may fetch an image.
const (
	createNetworkDeadline  = 15 * time.Minute
	destroyNetworkDeadline = 30 * time.Second
)

// CreateNetwork has the driver make the namespace of an allocation's network, with that host
// name, and returns it open, for the caller to close; nil: the node is to make it. A driver that
// does not describe creates_networks is not asked.
//
// # Errors
//
// The driver's own, and those of [host.Plugin.OpenNamespace].
func (d *Driver) CreateNetwork(ctx context.Context, allocID, hostname string) (*os.File, error) {
	if !d.Capabilities().GetCreatesNetworks() {
		return nil, nil
	}
	if err := d.plugin.Usable(); err != nil {
		return nil, err
	}
	// A late removal would take the new one away.
	if err := d.plugin.m.owed.Forget(ctx, state.NetworkRelease{Driver: d.Name(), AllocID: allocID}); err != nil {
		return nil, fmt.Errorf("driver %s: an earlier network of the group is still being removed: %w", d.Name(), err)
	}
	answer := &wasmnodev1.DriverCreateNetworkResponse{}
	err := d.callAbout(ctx, allocID, createNetworkDeadline, host.Call{
		Op: abi.OpDriverCreateNetwork, Request: &wasmnodev1.DriverCreateNetworkRequest{AllocId: allocID, Hostname: hostname}, Answer: answer,
	})
	if err != nil {
		return nil, fmt.Errorf("driver %s: the group's network: %w", d.Name(), err)
	}
	if answer.Namespace == "" {
		return nil, nil
	}
	f, err := d.plugin.Plugin().OpenNamespace(answer.Namespace)
	if err != nil {
		return nil, fmt.Errorf("driver %s: the group's network: %w", d.Name(), err)
	}
	return f, nil
}

// destroyNetwork has the driver let go of what CreateNetwork had it make, if that is something.
func (d *Driver) destroyNetwork(ctx context.Context, allocID string) error {
	if !d.Capabilities().GetCreatesNetworks() {
		return nil
	}
	err := d.callAbout(ctx, allocID, destroyNetworkDeadline, host.Call{
		Op: abi.OpDriverDestroyNetwork, Request: &wasmnodev1.DriverDestroyNetworkRequest{AllocId: allocID}, Answer: &wasmnodev1.DriverDestroyNetworkResponse{},
	})
	if err != nil {
		return fmt.Errorf("driver %s: letting go of the group's network: %w", d.Name(), err)
	}
	return nil
}

// callAbout calls an operation about an allocation and counts a fault against it.
func (d *Driver) callAbout(ctx context.Context, allocID string, deadline time.Duration, c host.Call) error {
	if err := d.plugin.Quarantined(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	return d.plugin.TaskError(allocID, d.plugin.Plugin().Invoke(ctx, c))
}
