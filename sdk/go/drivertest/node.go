package drivertest

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/conform"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

// Node is an emulated node with one driver. Its methods may be called concurrently;
// each call of the driver has an instance of its own.
type Node struct {
	*core
	tasks   atomic.Int64
	running []running // guarded by mu
}

// New returns a node with a driver that runs natively. newDriver is called for every
// call of the driver and must return a new one.
func New(t T, newDriver func() driver.Driver) *Node {
	t.Helper()
	return newNode(t, nativeDriver(newDriver))
}

// nativeDriver makes a plugin of a driver.
func nativeDriver(newDriver func() driver.Driver) plugin {
	return native(func() handler {
		d := newDriver()
		return func(ctx context.Context, operation string, request []byte) ([]byte, error) {
			return driver.Handle(ctx, d, operation, request)
		}
	})
}

func newNode(t T, p plugin) *Node {
	return &Node{core: &core{t: t, plugin: p, records: new(records), ops: coreOps{
		describe: abi.OpDriverDescribe, configure: abi.OpDriverConfigure, fingerprint: abi.OpDriverFingerprint,
		schema: func(description []byte) (string, error) {
			var d driver.Description
			err := d.UnmarshalVT(description)
			return d.PluginConfigSchema, err
		},
	}}}
}

// Task returns a task to start: with IDs of its own, existing directories, and config
// as the job file's `config` block in JSON, checked against the driver's schema and
// with its defaults. The test fails when the schema refuses it.
func (n *Node) Task(config string) *driver.TaskConfig {
	n.t.Helper()
	task, err := n.TryTask(config)
	if err != nil {
		n.t.Fatalf("drivertest: %v", err)
	}
	return task
}

// TryTask is [Node.Task] for tests of the schema: it returns the refusal.
func (n *Node) TryTask(config string) (*driver.TaskConfig, error) {
	n.t.Helper()
	decoded, err := applySchema(n.Describe().TaskConfigSchema, []byte(config))
	if err != nil {
		return nil, fmt.Errorf("task config: %w", err)
	}
	return n.newTask(decoded)
}

// newTask returns a task with a config that was checked.
func (n *Node) newTask(decoded []byte) (*driver.TaskConfig, error) {
	task, err := conform.Task(n.t.TempDir(), n.tasks.Add(1), decoded)
	if err != nil {
		return nil, err
	}
	task.NodeName = "drivertest"
	n.records.addDirs(task.Id, task.Directories)
	return task, nil
}
