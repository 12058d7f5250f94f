// Command wasi is the driver plugin "wasi": it runs a WASI preview 1 program as a
// task. The node owns the program; the driver only decides what to run.
package main

import (
	"context"
	"path"

	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/wasm"
)

const version = "0.1.0"

// taskConfig is what a task's config block holds.
type taskConfig struct {
	module  string
	args    []string
	listen  []string
	signals bool
	stdin   string
	mounts  []mount
}

var tasks = config.For((*taskConfig).fields)

func (c *taskConfig) fields(f *config.Fields) {
	f.String(&c.module, "module", "The WASI preview 1 program to run: a path in the task's directory, such as \"local/app.wasm\", "+
		"or an absolute path below a directory that the operator granted.").Required().NotEmpty()
	f.Strings(&c.args, "args", "The program's arguments after its name.").Default([]string{})
	f.Strings(&c.listen, "listen", "Labels of the group's ports that the program serves: it finds a TCP listener for each, "+
		"from descriptor 3 on.").NotEmpty().AtMost(16).Default([]string{})
	f.Bool(&c.signals, "signals", "Whether the program reads its signals, from the descriptor in WASMNODE_SIGNAL_FD, "+
		"instead of ending with the first.").Default(false)
	f.String(&c.stdin, "stdin", "A file that is the program's standard input: a path as that of the module.").Default("")
	config.Blocks(f, &c.mounts, "mounts", "Directories or files that the program sees besides /alloc, /local and /secrets.",
		(*mount).fields)
}

// mount is a directory or a file that the program sees.
type mount struct {
	source, target string
	readOnly       bool
}

func (m *mount) fields(f *config.Fields) {
	f.String(&m.source, "source", "A path in the task's directory, such as \"local/data\", or an absolute path on the host "+
		"below a directory that the operator granted.").Required().NotEmpty()
	f.String(&m.target, "target", "The absolute path at which the program sees it.").Required().Pattern("^/")
	f.Bool(&m.readOnly, "read_only", "Whether the program may only read.").Default(true)
}

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
		TaskConfigSchema: tasks.Schema(),
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
	c, err := tasks.Decode(task.DriverConfig)
	if err != nil {
		return nil, nil, err
	}
	id, err := wasm.Start(ctx, &wasm.Program{
		Module:  c.module,
		Args:    c.args,
		Env:     task.Env,
		Mounts:  mounts(task, c.mounts),
		Listen:  c.listen,
		Signals: c.signals,
		Stdin:   c.stdin,
	})
	if err != nil {
		return nil, nil, err
	}
	return &driver.TaskHandle{WorkloadId: id}, nil, nil
}

// mounts are the three directories that every task has, those that the node asks for
// (volumes and devices), and those of the job file.
func mounts(task *driver.TaskConfig, asked []mount) []*driver.Mount {
	list := []*driver.Mount{
		{TaskPath: "/alloc", HostPath: task.Directories.Shared},
		{TaskPath: "/local", HostPath: task.Directories.Local},
		{TaskPath: "/secrets", HostPath: task.Directories.Secrets},
	}
	list = append(list, task.Mounts...)
	for _, m := range asked {
		source := m.source
		if !path.IsAbs(source) {
			source = path.Join(task.Directories.Task, source)
		}
		list = append(list, &driver.Mount{
			TaskPath: m.target,
			HostPath: source,
			ReadOnly: m.readOnly,
		})
	}
	return list
}
