// Command qemu is the driver plugin "qemu": it runs a virtual machine as a task. The machine
// is a process of the node, so that the node waits for it, measures it and finds it again;
// the driver says what to start, and stops it as a person would, by the power button.
package main

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/process"
)

const version = "0.1.0"

// defaultArchitecture is the one that is looked for where the operator names none.
const defaultArchitecture = "x86_64"

//go:embed plugin_schema.json
var pluginSchema string

//go:embed task_schema.json
var taskSchema string

func init() { driver.Serve(&qemu{}) }

func main() {}

// qemu is the driver with the plugin's configuration.
type qemu struct {
	imagePaths    []string
	options       []string // those that args may have; empty: any
	architectures []string // those that may be used; empty: any
	dir           string
}

// Describe has the capabilities of Nomad's driver: neither signals nor commands reach what
// runs in the machine.
func (*qemu) Describe() *driver.Description {
	return &driver.Description{
		Name:               "qemu",
		Version:            version,
		Capabilities:       &driver.Capabilities{FilesystemIsolation: driver.IsolationImage, NetworkNamespaces: true},
		PluginConfigSchema: pluginSchema,
		TaskConfigSchema:   taskSchema,
	}
}

func (q *qemu) Configure(_ context.Context, text []byte) error {
	c, err := config.Parse(text)
	if err != nil {
		return abi.NewError(abi.InvalidArgument, "config: "+err.Error())
	}
	q.imagePaths = c.Get("image_paths").Texts()
	q.options = c.Get("args_allowlist").Texts()
	q.architectures = nil
	for _, name := range c.Get("emulators_allowlist").Texts() {
		q.architectures = append(q.architectures, architecture(name))
	}
	q.dir = strings.TrimSuffix(c.Get("emulators_dir").Text(), "/")
	return nil
}

// emulatorPrefix begins the names of emulators, which end with the architecture.
const emulatorPrefix = "qemu-system-"

// architecture is that of an emulator, which may be named by it.
func architecture(emulator string) string { return strings.TrimPrefix(emulator, emulatorPrefix) }

// Fingerprint asks each emulator for its version, and qemu-img, without which no image is
// looked at.
func (q *qemu) Fingerprint(ctx context.Context) (*driver.Fingerprint, error) {
	names := q.architectures
	if len(names) == 0 {
		names = []string{defaultArchitecture}
	}
	var found []string
	var newest string
	for _, name := range names {
		v, err := q.versionOf(ctx, emulatorPrefix+name)
		switch {
		case abi.CodeOf(err) == abi.NotFound:
			continue
		case err != nil:
			return unhealthy(err), nil
		case newest == "":
			newest = v
		}
		found = append(found, name)
	}
	if len(found) == 0 {
		return &driver.Fingerprint{Health: driver.Undetected, Description: "no " + emulatorPrefix + strings.Join(names, ", no "+emulatorPrefix) + " in " + q.dir}, nil
	}
	if _, err := q.versionOf(ctx, imageTool); err != nil {
		return unhealthy(err), nil
	}
	slices.Sort(found)
	return &driver.Fingerprint{
		Health:      driver.Healthy,
		Description: "Healthy",
		Attributes: map[string]*driver.Attribute{
			"driver.qemu":           driver.Bool(true),
			"driver.qemu.version":   driver.String(newest),
			"driver.qemu.emulators": driver.String(strings.Join(found, ",")),
		},
	}, nil
}

func unhealthy(err error) *driver.Fingerprint {
	return &driver.Fingerprint{Health: driver.Unhealthy, Description: err.Error()}
}

// versionOf runs a program of QEMU's that says its version: "… version 7.2.22 (Debian …".
func (q *qemu) versionOf(ctx context.Context, name string) (string, error) {
	out, err := q.run(ctx, name, nil, "--version")
	if err != nil {
		return "", err
	}
	_, after, _ := strings.Cut(string(out), " version ")
	words := strings.Fields(after)
	if len(words) == 0 {
		return "", abi.NewError(abi.Unavailable, name+" --version says no version")
	}
	return words[0], nil
}

// run runs a program of QEMU's to its end and returns what it wrote, or the last line of its
// complaint.
func (q *qemu) run(ctx context.Context, name string, stdin []byte, args ...string) ([]byte, error) {
	ended, err := process.Run(ctx, &process.Helper{Command: q.dir + "/" + name, Args: args, Stdin: stdin})
	switch {
	case err != nil:
		return nil, err
	case ended.ExitCode != 0:
		lines := strings.Split(strings.TrimSpace(string(ended.Stderr)), "\n")
		return nil, abi.NewError(abi.FailedPrecondition, strings.TrimPrefix(lines[len(lines)-1], name+": "))
	}
	return ended.Stdout, nil
}

func (q *qemu) StartTask(ctx context.Context, task *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	if len(task.Mounts) > 0 {
		return nil, nil, abi.NewError(abi.FailedPrecondition, "a virtual machine mounts no volumes and no files of devices")
	}
	m, err := q.machineOf(task)
	if err != nil {
		return nil, nil, err
	}
	if err := q.checkAccelerator(ctx, m); err != nil {
		return nil, nil, err
	}
	drive, err := q.prepareImage(ctx, m, task.Directories)
	if err != nil {
		return nil, nil, err
	}
	id, err := process.Start(ctx, &process.Command{
		Command:   q.dir + "/" + m.emulator,
		Args:      m.arguments(drive), // and no environment: the machine does not see it, and by it a job would change the emulator
		User:      task.User,
		Isolation: process.IsolationNone,
	})
	if err != nil {
		return nil, nil, err
	}
	return handle(m, task, id), m.network(), nil
}

// RecoverTask makes the handle again: the node may have died before it kept the one that the
// start had returned.
func (q *qemu) RecoverTask(_ context.Context, task *driver.TaskConfig, old *driver.TaskHandle) (*driver.TaskHandle, error) {
	m, err := q.machineOf(task)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // what was permitted when it began goes on, with the handle that it has
	}
	return handle(m, task, old.WorkloadId), nil
}

// stateSeparator stands between the sockets in a handle's state: no path has it.
const stateSeparator = "\x00"

// handle has the path of the monitor's socket as its state, and behind the separator that of the
// guest agent's, if there is one; it is empty without graceful_shutdown.
func handle(m *machine, task *driver.TaskConfig, workload string) *driver.TaskHandle {
	h := &driver.TaskHandle{Version: 1, WorkloadId: workload}
	if !m.graceful {
		return h
	}
	state := task.Directories.Task + "/" + monitorSocket
	if m.agent {
		state += stateSeparator + task.Directories.Task + "/" + agentSocket
	}
	h.DriverState = []byte(state)
	return h
}
