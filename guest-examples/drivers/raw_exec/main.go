// Command raw_exec is the driver plugin "raw_exec": it runs a command of the node as a
// task, without isolation. The node owns the process; the driver only decides what to run.
package main

import (
	"context"
	_ "embed"
	"slices"
	"sync/atomic"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/process"
)

const version = "0.1.0"

// defaultPath is the PATH of tasks that have none, as the agent has none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

//go:embed plugin_schema.json
var pluginSchema string

//go:embed task_schema.json
var taskSchema string

func init() { driver.Serve(new(rawExec)) }

func main() {}

type rawExec struct {
	denied atomic.Pointer[[]string] // variables that no task gets
}

func (*rawExec) Describe() *driver.Description {
	return &driver.Description{
		Name:    "raw_exec",
		Version: version,
		Capabilities: &driver.Capabilities{
			SendSignals:         true,
			NetworkNamespaces:   true,
			Exec:                true,
			FilesystemIsolation: driver.IsolationNone,
		},
		PluginConfigSchema: pluginSchema,
		TaskConfigSchema:   taskSchema,
	}
}

func (d *rawExec) Configure(_ context.Context, text []byte) error {
	c, err := config.Parse(text)
	if err != nil {
		return abi.NewError(abi.InvalidArgument, "config: "+err.Error())
	}
	denied := c.Get("denied_envvars").Texts()
	d.denied.Store(&denied)
	return nil
}

func (*rawExec) Fingerprint(context.Context) (*driver.Fingerprint, error) {
	return &driver.Fingerprint{
		Health:      driver.Healthy,
		Description: "Healthy",
		Attributes: map[string]*driver.Attribute{
			"driver.raw_exec":         driver.Bool(true),
			"driver.raw_exec.version": driver.String(version),
		},
	}, nil
}

func (d *rawExec) StartTask(ctx context.Context, task *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	c, err := config.Parse(task.DriverConfig)
	if err != nil {
		return nil, nil, abi.NewError(abi.InvalidArgument, "config: "+err.Error())
	}
	denied := slices.Concat(*d.denied.Load(), c.Get("denied_envvars").Texts())
	id, err := process.Start(ctx, &process.Command{
		Command:   c.Get("command").Text(),
		Args:      c.Get("args").Texts(),
		Env:       environment(task.Env, denied),
		Dir:       c.Get("work_dir").Text(),
		User:      task.User,
		Isolation: process.IsolationNone,

		OomScoreAdj: int32(c.Get("oom_score_adj").Int()),
	})
	if err != nil {
		return nil, nil, err
	}
	return &driver.TaskHandle{WorkloadId: id}, nil, nil
}

// environment is the task's, which nobody else has, without what is denied, and with a PATH.
func environment(env map[string]string, denied []string) map[string]string {
	if env == nil {
		env = map[string]string{}
	}
	for _, name := range denied {
		delete(env, name)
	}
	if _, has := env["PATH"]; !has {
		env["PATH"] = defaultPath
	}
	return env
}
