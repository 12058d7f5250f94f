package state

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/structs"
)

// ErrInjected is what a [Failing] store fails with.
var ErrInjected = errors.New("injected failure")

// Failing is a store that dies at its n-th operation: that one and all later ones
// fail and change nothing, as if the agent had been killed there. A test counts n up
// until a run gets through, and reopens the inner store after each.
type Failing struct {
	inner DB
	n     int64
	count atomic.Int64

	closed atomic.Bool
}

var _ DB = (*Failing)(nil)

// NewFailing returns a store that fails from its n-th operation on, counted from 1;
// with n below 1 it never fails. Name and Close are not operations. The inner store
// stays the caller's: Close does not close it.
func NewFailing(inner DB, n int) *Failing {
	return &Failing{inner: inner, n: int64(n)}
}

// Failed reports whether an operation has failed by injection.
func (f *Failing) Failed() bool { return f.n > 0 && f.count.Load() >= f.n }

// Operations is how many operations were tried.
func (f *Failing) Operations() int { return int(f.count.Load()) }

func (f *Failing) next() error {
	if f.closed.Load() {
		return fmt.Errorf("failing: %w", boltfile.ErrClosed)
	}
	if c := f.count.Add(1); f.n > 0 && c >= f.n {
		return fmt.Errorf("operation %d: %w", c, ErrInjected)
	}
	return nil
}

// Name implements [DB].
func (f *Failing) Name() string { return "failing " + f.inner.Name() }

// Allocations implements [DB].
func (f *Failing) Allocations() ([]*structs.Allocation, map[string]error, error) {
	if err := f.next(); err != nil {
		return nil, nil, err
	}
	return f.inner.Allocations()
}

// PutAllocation implements [DB].
func (f *Failing) PutAllocation(a *structs.Allocation) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.inner.PutAllocation(a)
}

// DeleteAllocation implements [DB].
func (f *Failing) DeleteAllocation(allocID string) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.inner.DeleteAllocation(allocID)
}

// AllocationState implements [DB].
func (f *Failing) AllocationState(allocID string) (*structs.AllocationState, error) {
	if err := f.next(); err != nil {
		return nil, err
	}
	return f.inner.AllocationState(allocID)
}

// PutAllocationState implements [DB].
func (f *Failing) PutAllocationState(s *structs.AllocationState) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.inner.PutAllocationState(s)
}

// Task implements [DB].
func (f *Failing) Task(allocID, task string) (*TaskLocal, *structs.TaskState, error) {
	if err := f.next(); err != nil {
		return nil, nil, err
	}
	return f.inner.Task(allocID, task)
}

// PutTaskLocal implements [DB].
func (f *Failing) PutTaskLocal(allocID, task string, local *TaskLocal) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.inner.PutTaskLocal(allocID, task, local)
}

// PutTaskState implements [DB].
func (f *Failing) PutTaskState(allocID, task string, s *structs.TaskState) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.inner.PutTaskState(allocID, task, s)
}

// PutTask implements [DB].
func (f *Failing) PutTask(allocID, task string, local *TaskLocal, s *structs.TaskState) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.inner.PutTask(allocID, task, local, s)
}

// Node implements [DB].
func (f *Failing) Node() (*NodeIdentity, error) {
	if err := f.next(); err != nil {
		return nil, err
	}
	return f.inner.Node()
}

// PutNode implements [DB].
func (f *Failing) PutNode(n *NodeIdentity) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.inner.PutNode(n)
}

// Seen implements [DB].
func (f *Failing) Seen() (*Seen, error) {
	if err := f.next(); err != nil {
		return nil, err
	}
	return f.inner.Seen()
}

// PutSeen implements [DB].
func (f *Failing) PutSeen(s *Seen) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.inner.PutSeen(s)
}

// NodeMeta implements [DB].
func (f *Failing) NodeMeta() (*NodeMeta, error) {
	if err := f.next(); err != nil {
		return nil, err
	}
	return f.inner.NodeMeta()
}

// PutNodeMeta implements [DB].
func (f *Failing) PutNodeMeta(m *NodeMeta) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.inner.PutNodeMeta(m)
}

// Devices implements [DB].
func (f *Failing) Devices() (*DeviceState, error) {
	if err := f.next(); err != nil {
		return nil, err
	}
	return f.inner.Devices()
}

// PutDevices implements [DB].
func (f *Failing) PutDevices(d *DeviceState) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.inner.PutDevices(d)
}

// Drivers implements [DB].
func (f *Failing) Drivers() (*DriverState, error) {
	if err := f.next(); err != nil {
		return nil, err
	}
	return f.inner.Drivers()
}

// PutDrivers implements [DB].
func (f *Failing) PutDrivers(d *DriverState) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.inner.PutDrivers(d)
}

// PluginValues implements [DB].
func (f *Failing) PluginValues(plugin string) (map[string]*PluginValue, error) {
	if err := f.next(); err != nil {
		return nil, err
	}
	return f.inner.PluginValues(plugin)
}

// PutPluginValue implements [DB].
func (f *Failing) PutPluginValue(plugin, key string, v *PluginValue) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.inner.PutPluginValue(plugin, key, v)
}

// DeletePluginValue implements [DB].
func (f *Failing) DeletePluginValue(plugin, key string) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.inner.DeletePluginValue(plugin, key)
}

// Close implements [DB]; the inner store stays open.
func (f *Failing) Close() error {
	f.closed.Store(true)
	return nil
}
