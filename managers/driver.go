package managers

import (
	"context"
	"time"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/structs"
)

// Driver is one version of a driver, as tasks use it. It keeps that version loaded
// until it is released. Its methods may be called concurrently.
type Driver struct{}

// Name returns the driver's name.
func (d *Driver) Name() string { return "" }

// PluginDigest returns the digest of the plugin's file.
func (d *Driver) PluginDigest() string { return "" }

// Capabilities returns what the driver can do; read-only.
func (d *Driver) Capabilities() *wasmnodev1.DriverCapabilities { return nil }

// DecodeConfig checks a task's `config` block against the driver's schema.
func (d *Driver) DecodeConfig(config map[string]any) ([]byte, error) { return nil, nil }

// StartTask starts a task.
func (d *Driver) StartTask(ctx context.Context, cfg *wasmnodev1.TaskConfig) (*wasmnodev1.TaskHandle, *wasmnodev1.DriverNetwork, error) {
	return nil, nil, nil
}

// RecoverTask takes over a task.
func (d *Driver) RecoverTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle) (*wasmnodev1.TaskHandle, error) {
	return nil, nil
}

// WaitTask waits for a task's end.
func (d *Driver) WaitTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle) (*structs.ExitResult, error) {
	return nil, nil
}

// StopTask stops a task.
func (d *Driver) StopTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, signal string, timeout time.Duration) (*wasmnodev1.TaskHandle, error) {
	return nil, nil
}

// SignalTask sends a signal to a task.
func (d *Driver) SignalTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, signal string) (*wasmnodev1.TaskHandle, error) {
	return nil, nil
}

// DestroyTask frees what a task holds.
func (d *Driver) DestroyTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, force bool) error {
	return nil
}

// TaskStats returns what a task uses.
func (d *Driver) TaskStats(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle) (*wasmnodev1.TaskStats, error) {
	return nil, nil
}

// Replaced is closed when another version has taken over the driver's name.
func (d *Driver) Replaced() <-chan struct{} { return nil }

// Release gives the driver back.
func (d *Driver) Release() {}
