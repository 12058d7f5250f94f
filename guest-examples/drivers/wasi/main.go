// Command wasi is the driver plugin "wasi": it runs a WASI preview 1 program as a
// task. The node owns the program; the driver only decides what to run.
package main

import (
	"context"
	_ "embed"
	"path"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/wasm"
)

const version = "0.1.0"

//go:embed plugin_schema.json
var pluginSchema string

//go:embed task_schema.json
var taskSchema string

func init() { driver.Serve(wasi{}) }

func main() {}

type wasi struct{}

func (wasi) Describe() *driver.Description {
	return &driver.Description{
		Name:    "wasi",
		Version: version,
		Capabilities: &driver.Capabilities{
			SendSignals:         true,
			Exec:                true,
			FilesystemIsolation: driver.IsolationChroot,
			NetworkNamespaces:   true,
		},
		PluginConfigSchema: pluginSchema,
		TaskConfigSchema:   taskSchema,
	}
}

func (wasi) Configure(context.Context, []byte) error { return nil }

func (wasi) Fingerprint(context.Context) (*driver.Fingerprint, error) {
	return &driver.Fingerprint{
		Health:      driver.Healthy,
		Description: "Healthy",
		Attributes: map[string]*driver.Attribute{
			"driver.wasi":         driver.Bool(true),
			"driver.wasi.version": driver.String(version),
			"driver.wasi.preview": driver.Int(1, ""),
		},
	}, nil
}

func (wasi) StartTask(ctx context.Context, task *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	c, err := config.Parse(task.DriverConfig)
	if err != nil {
		return nil, nil, abi.NewError(abi.InvalidArgument, "config: "+err.Error())
	}
	id, err := wasm.Start(ctx, &wasm.Program{
		Module:  c.Get("module").Text(),
		Args:    c.Get("args").Texts(),
		Env:     task.Env,
		Mounts:  mounts(task, c.Get("mounts").Items()),
		Listen:  c.Get("listen").Texts(),
		Signals: c.Get("signals").Bool(),
		Stdin:   c.Get("stdin").Text(),
	})
	if err != nil {
		return nil, nil, err
	}
	return &driver.TaskHandle{WorkloadId: id}, nil, nil
}

// mounts are the three directories that every task has, those that the node asks for
// (volumes and devices), and those of the job file.
func mounts(task *driver.TaskConfig, asked []config.Value) []*driver.Mount {
	list := []*driver.Mount{
		{TaskPath: "/alloc", HostPath: task.Directories.Shared},
		{TaskPath: "/local", HostPath: task.Directories.Local},
		{TaskPath: "/secrets", HostPath: task.Directories.Secrets},
	}
	list = append(list, task.Mounts...)
	for _, m := range asked {
		source := m.Get("source").Text()
		if !path.IsAbs(source) {
			source = path.Join(task.Directories.Task, source)
		}
		list = append(list, &driver.Mount{
			TaskPath: m.Get("target").Text(),
			HostPath: source,
			ReadOnly: m.Get("read_only").Bool(),
		})
	}
	return list
}
