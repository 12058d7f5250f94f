package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

// running is a task that was started and not destroyed, with its handle: what a node has of it
// when its agent begins again.
type running struct {
	task   *driver.TaskConfig
	handle *driver.TaskHandle
}

// Handle returns the handle that the node has of a task: the last that the driver answered for
// it; nil: the task is not there.
func (n *Node) Handle(task *driver.TaskConfig) *driver.TaskHandle {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := n.index(task.GetId()); i >= 0 {
		return n.running[i].handle
	}
	return nil
}

// index is where a task is; negative: nowhere. The caller holds mu.
func (n *Node) index(id string) int {
	return slices.IndexFunc(n.running, func(r running) bool { return r.task.GetId() == id })
}

// keep keeps a task, which is there, with its handle, as a node does before it goes on.
func (n *Node) keep(task *driver.TaskConfig, handle *driver.TaskHandle) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := n.index(task.GetId()); i >= 0 {
		n.running[i].handle = handle
		return
	}
	n.running = append(n.running, running{task, handle})
}

// renew keeps another handle of a task, if that is there.
func (n *Node) renew(task *driver.TaskConfig, handle *driver.TaskHandle) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := n.index(task.GetId()); i >= 0 {
		n.running[i].handle = handle
	}
}

// forget forgets a task.
func (n *Node) forget(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := n.index(id); i >= 0 {
		n.running = slices.Delete(n.running, i, i+1)
	}
}

// Restart has the agent begin again: each task that was started and not destroyed is handed to
// the driver with its handle, in the order in which they were started. What they run goes on. Of a
// driver that does not recover tasks the node keeps those that are workloads. The error names the
// tasks that the driver lost, each with its answer.
func (n *Node) Restart() error {
	n.t.Helper()
	n.mu.Lock()
	tasks := slices.Clone(n.running)
	n.mu.Unlock()
	var errs []error
	for _, r := range tasks {
		if err := n.recover(r); err != nil {
			errs = append(errs, fmt.Errorf("task %s: %w", r.task.GetId(), err))
		}
	}
	return errors.Join(errs...)
}

// Upgrade has another build of the driver, compiled to WebAssembly, take over, with the clock
// and the directories of the node, as a node does when the file changes: it is described, gets the
// configuration of [Node.Configure], and is asked for its fingerprint; then it is handed the tasks
// as by [Node.Restart], whose errors are Upgrade's. If it fails before that, the old one stays.
func (n *Node) Upgrade(wasm []byte) error {
	n.t.Helper()
	next, err := n.build(wasm, abi.RequiredDriverOps)
	if err != nil {
		return err
	}
	return n.upgrade(next)
}

// UpgradeNative is [Node.Upgrade] to a driver that runs natively.
func (n *Node) UpgradeNative(newDriver func() driver.Driver) error {
	n.t.Helper()
	return n.upgrade(nativeDriver(newDriver))
}

func (n *Node) upgrade(next plugin) error {
	n.t.Helper()
	if err := n.replace(next); err != nil {
		return err
	}
	return n.Restart()
}

// build makes a plugin for this node.
func (n *core) build(wasm []byte, required []string) (plugin, error) {
	c := &compiled{}
	n.mu.Lock()
	if old, is := n.plugin.(*compiled); is {
		c.clock, c.dirs = old.clock, old.dirs
	}
	n.mu.Unlock()
	return load(n.t, wasm, required, c)
}

// replace has another build take over.
func (n *core) replace(next plugin) error {
	ctx := context.Background()
	n.mu.Lock()
	now, given := n.plugin, n.given
	n.mu.Unlock()
	// A node beside this one, which has the same records.
	beside := &core{t: n.t, plugin: next, records: n.records, ops: n.ops}
	was, err := nameOf(&core{t: n.t, plugin: now, records: n.records, ops: n.ops})
	if err != nil {
		return err
	}
	name, err := nameOf(beside)
	switch {
	case err != nil:
		return err
	case name != was:
		return fmt.Errorf("the plugin is %s, and the other build says that it is %s", was, name)
	}
	if err := beside.Configure(given); err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	if _, err := beside.call(ctx, n.ops.fingerprint, "", nil); err != nil {
		return fmt.Errorf("fingerprint: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.plugin, n.config = next, beside.config
	return nil
}

// nameOf is what a plugin calls itself, which has one encoding for all kinds of plugins.
func nameOf(n *core) (string, error) {
	answer, err := n.describeOnce(context.Background())
	if err != nil {
		return "", fmt.Errorf("describe: %w", err)
	}
	var d wasmnodev1.DriverDescribeResponse
	if err := d.UnmarshalVT(answer); err != nil {
		return "", fmt.Errorf("describe: %w", err)
	}
	return d.Name, nil
}
