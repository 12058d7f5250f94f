// Command exec is the driver plugin "exec": it runs a command as a task in a root and
// namespaces of its own. Where the node cannot isolate processes it is unhealthy, and
// says why.
package main

import (
	"cmp"
	"context"
	_ "embed"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/process"
)

const version = "0.1.0"

// defaultUser is the user of a task that sets none, as with Nomad.
const defaultUser = "nobody"

//go:embed plugin_schema.json
var pluginSchema string

//go:embed task_schema.json
var taskSchema string

func init() { driver.Serve(exec{}) }

func main() {}

type exec struct{}

func (exec) Describe() *driver.Description {
	return &driver.Description{
		Name:    "exec",
		Version: version,
		Capabilities: &driver.Capabilities{
			SendSignals:         true,
			NetworkNamespaces:   true,
			Exec:                true,
			FilesystemIsolation: driver.IsolationChroot,
		},
		PluginConfigSchema: pluginSchema,
		TaskConfigSchema:   taskSchema,
	}
}

func (exec) Configure(context.Context, []byte) error { return nil }

func (exec) Fingerprint(ctx context.Context) (*driver.Fingerprint, error) {
	if err := process.FullIsolation(ctx); err != nil {
		return &driver.Fingerprint{Health: driver.Unhealthy, Description: "no full isolation: " + err.Error()}, nil
	}
	return &driver.Fingerprint{
		Health:      driver.Healthy,
		Description: "Healthy",
		Attributes: map[string]*driver.Attribute{
			"driver.exec":         driver.Bool(true),
			"driver.exec.version": driver.String(version),
		},
	}, nil
}

func (exec) StartTask(ctx context.Context, task *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	c, err := config.Parse(task.DriverConfig)
	if err != nil {
		return nil, nil, abi.NewError(abi.InvalidArgument, "config: "+err.Error())
	}
	id, err := process.Start(ctx, &process.Command{
		Command:   c.Get("command").Text(),
		Args:      c.Get("args").Texts(),
		Env:       task.Env,
		Dir:       c.Get("work_dir").Text(),
		User:      cmp.Or(task.User, defaultUser),
		Isolation: process.IsolationFull,

		AddCapabilities:  c.Get("cap_add").Texts(),
		DropCapabilities: c.Get("cap_drop").Texts(),
	})
	if err != nil {
		return nil, nil, err
	}
	return &driver.TaskHandle{WorkloadId: id}, nil, nil
}
