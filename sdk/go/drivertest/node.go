package drivertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
)

// Node is an emulated node with one driver. Its methods may be called concurrently;
// each call of the driver has an instance of its own.
type Node struct {
	t       testing.TB
	plugin  plugin
	records *records

	mu     sync.Mutex
	tasks  int
	config []byte // nil: not configured yet
}

// plugin makes instances of a driver.
type plugin interface {
	instance(ctx context.Context, host hostcall.Host) (instance, error)
}

// instance is one driver that lives for one call and its configuration.
type instance interface {
	call(ctx context.Context, operation string, request []byte) ([]byte, error)
	close(ctx context.Context)
}

// FaultError is a call that ended without an answer: the driver panicked, exited,
// trapped, missed its deadline or broke the ABI.
type FaultError struct {
	Operation string
	Cause     error
}

func (e *FaultError) Error() string { return fmt.Sprintf("%s: fault: %v", e.Operation, e.Cause) }

// Unwrap returns the cause.
func (e *FaultError) Unwrap() error { return e.Cause }

// New returns a node with a driver that runs natively. newDriver is called for every
// call of the driver and must return a new one.
func New(t testing.TB, newDriver func() driver.Driver) *Node {
	t.Helper()
	return newNode(t, native(newDriver))
}

func newNode(t testing.TB, p plugin) *Node {
	return &Node{t: t, plugin: p, records: new(records)}
}

// Call performs one operation on a new, configured instance, from encoded request to
// encoded answer. The methods named after the operations are what one wants; this is
// for requests that they cannot make.
func (n *Node) Call(operation string, request []byte) ([]byte, error) {
	return n.call(context.Background(), operation, "", request)
}

func (n *Node) call(ctx context.Context, operation, taskID string, request []byte) ([]byte, error) {
	host := &callHost{records: n.records, operation: operation, taskID: taskID}
	i, err := n.plugin.instance(ctx, host)
	if err != nil {
		return nil, err
	}
	defer i.close(ctx)
	if operation != abi.OpDriverDescribe && operation != abi.OpDriverConfigure {
		if err := n.configureInstance(ctx, i); err != nil {
			return nil, fmt.Errorf("configure before %s: %w", operation, err)
		}
	}
	return i.call(ctx, operation, request)
}

// configureInstance hands over the configuration in force; before the first
// Configure that is the defaults.
func (n *Node) configureInstance(ctx context.Context, i instance) error {
	n.mu.Lock()
	config := n.config
	n.mu.Unlock()
	if config == nil {
		var err error
		if config, err = applySchema(n.describe(ctx).PluginConfigSchema, nil); err != nil {
			return err
		}
	}
	request, err := (&wasmnodev1.DriverConfigureRequest{Config: config}).MarshalVT()
	if err != nil {
		return err
	}
	_, err = i.call(ctx, abi.OpDriverConfigure, request)
	return err
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
	n.mu.Lock()
	n.tasks++
	number := n.tasks
	n.mu.Unlock()
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
	return &driver.TaskConfig{
		Id:            fmt.Sprintf("00000000-0000-0000-0000-%012d/task/%08x", number, number),
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
