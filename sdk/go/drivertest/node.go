package drivertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

// Node is an emulated node with one driver. Its methods may be called concurrently;
// each call of the driver has an instance of its own.
type Node struct {
	*core
	tasks atomic.Int64
}

// New returns a node with a driver that runs natively. newDriver is called for every
// call of the driver and must return a new one.
func New(t testing.TB, newDriver func() driver.Driver) *Node {
	t.Helper()
	return newNode(t, native(func() handler {
		d := newDriver()
		return func(ctx context.Context, operation string, request []byte) ([]byte, error) {
			return driver.Handle(ctx, d, operation, request)
		}
	}))
}

func newNode(t testing.TB, p plugin) *Node {
	return &Node{core: &core{t: t, plugin: p, records: new(records), ops: coreOps{
		describe: abi.OpDriverDescribe, configure: abi.OpDriverConfigure,
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
	number := n.tasks.Add(1)
	alloc := n.t.TempDir()
	dirs := &wasmnodev1.TaskDirectories{
		Alloc:   alloc,
		Shared:  filepath.Join(alloc, "alloc"),
		Task:    filepath.Join(alloc, "task"),
		Local:   filepath.Join(alloc, "task", "local"),
		Secrets: filepath.Join(alloc, "task", "secrets"),
		Logs:    filepath.Join(alloc, "alloc", "logs"),
	}
	for _, dir := range []string{dirs.Local, dirs.Secrets, dirs.Logs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	id := fmt.Sprintf("00000000-0000-0000-0000-%012d/task/%08x", number, number)
	n.records.addDirs(id, dirs)
	return &driver.TaskConfig{
		Id:            id,
		Name:          "task",
		AllocId:       fmt.Sprintf("00000000-0000-0000-0000-%012d", number),
		JobId:         "job",
		JobName:       "job",
		TaskGroupName: "group",
		Namespace:     "default",
		NodeName:      "drivertest",
		NodeId:        "00000000-0000-0000-0000-000000000000",
		Env:           map[string]string{"NOMAD_TASK_NAME": "task"},
		Resources:     &wasmnodev1.Resources{CpuMhz: 100, MemoryBytes: 64 << 20},
		Directories:   dirs,
		StdoutPath:    filepath.Join(dirs.Logs, "task.stdout"),
		StderrPath:    filepath.Join(dirs.Logs, "task.stderr"),
		DriverConfig:  decoded,
		Log:           &wasmnodev1.LogConfig{MaxFiles: 10, MaxFileSizeBytes: 10 << 20},
	}, nil
}
