// Command exec is the driver plugin "exec": it runs a command as a task in a root and
// namespaces of its own. Where the node cannot isolate processes it is unhealthy, and
// says why.
package main

import (
	"cmp"
	"context"

	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/process"
)

const version = "0.1.0"

// defaultUser is the user of a task that sets none, as with Nomad.
const defaultUser = "nobody"

// taskConfig is what a task's config block holds.
type taskConfig struct {
	command          string
	args             []string
	workDir          string
	capAdd, capDrop  []string
	pidMode, ipcMode string // there is but one of each
	networkMode      string
	cpuset           string
}

var tasks = config.For((*taskConfig).fields)

func (c *taskConfig) fields(f *config.Fields) {
	f.String(&c.command, "command", "The program to run, as the task sees it: an absolute path, a path in the task's directory, "+
		"such as \"local/server\", or a name.").Required().NotEmpty()
	f.Strings(&c.args, "args", "The arguments after the command.").Default([]string{})
	f.String(&c.workDir, "work_dir", "The working directory, an absolute path. The task's directory by default.").Pattern("^/")
	f.Strings(&c.capAdd, "cap_add", "Linux capabilities that the task has besides its user's, such as \"net_raw\". "+
		"The operator grants each.").Default([]string{})
	f.Strings(&c.capDrop, "cap_drop", "Linux capabilities that the task does not have; \"all\" is every one that is not added.").Default([]string{})
	f.String(&c.pidMode, "pid_mode", "The task has processes of its own and sees no others.").OneOf("private").Default("private")
	f.String(&c.ipcMode, "ipc_mode", "The task has shared memory and queues of its own.").OneOf("private").Default("private")
	f.String(&c.networkMode, "network_mode", "The network that the task begins in: \"group\", its group's; \"host\", the node's, which the operator grants "+
		"to tasks whose group has its own; \"none\", one of its own, where it reaches itself only; or the absolute path of a network namespace, "+
		"in a directory that the operator grants.").Pattern("^(group|host|none|/.+)$").Default("group")
	f.String(&c.cpuset, "cpuset_cpus", "The processors that the task begins on, such as \"0-3,6\": of the cores that it has reserved, "+
		"or of those that nobody has. All of them by default.").Default("")
}

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
		TaskConfigSchema: tasks.Schema(),
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
	c, err := tasks.Decode(task.DriverConfig)
	if err != nil {
		return nil, nil, err
	}
	command := &process.Command{
		Command:   c.command,
		Args:      c.args,
		Env:       task.Env,
		Dir:       c.workDir,
		User:      cmp.Or(task.User, defaultUser),
		Isolation: process.IsolationFull,

		AddCapabilities:  c.capAdd,
		DropCapabilities: c.capDrop,

		Cpuset: c.cpuset,
	}
	setNetwork(command, c.networkMode)
	id, err := process.Start(ctx, command)
	if err != nil {
		return nil, nil, err
	}
	return &driver.TaskHandle{WorkloadId: id}, nil, nil
}

// setNetwork is the network that a task's config names; without one it is that of the group.
func setNetwork(command *process.Command, mode string) {
	switch mode {
	case "group":
	case "host":
		command.Network = process.NetworkHost
	case "none":
		command.Network = process.NetworkNone
	default:
		command.Network, command.NetworkNamespace = process.NetworkNamespace, mode
	}
}
