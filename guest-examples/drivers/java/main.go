// Command java is the driver plugin "java": it runs a Java program as a task, isolated as
// exec isolates commands. What Java there is it reads from the file that every Java has
// beside its bin directory, so nothing has to be run to know it.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"os"
	"strings"

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

func init() { driver.Serve(&java{}) }

func main() {}

type java struct{ home string }

func (*java) Describe() *driver.Description {
	return &driver.Description{
		Name:    "java",
		Version: version,
		Capabilities: &driver.Capabilities{
			SendSignals:         true,
			NetworkNamespaces:   true,
			FilesystemIsolation: driver.IsolationChroot,
		},
		PluginConfigSchema: pluginSchema,
		TaskConfigSchema:   taskSchema,
	}
}

func (j *java) Configure(_ context.Context, text []byte) error {
	c, err := config.Parse(text)
	if err != nil {
		return abi.NewError(abi.InvalidArgument, "config: "+err.Error())
	}
	j.home = strings.TrimSuffix(c.Get("home").Text(), "/")
	return nil
}

func (j *java) Fingerprint(ctx context.Context) (*driver.Fingerprint, error) {
	release, err := os.ReadFile(j.home + "/release")
	if err != nil {
		return &driver.Fingerprint{Health: driver.Undetected, Description: "no Java in " + j.home + ", or it is not granted"}, nil
	}
	if err := process.FullIsolation(ctx); err != nil {
		return &driver.Fingerprint{Health: driver.Unhealthy, Description: "no full isolation: " + err.Error()}, nil
	}
	return &driver.Fingerprint{
		Health:      driver.Healthy,
		Description: "Healthy",
		Attributes: map[string]*driver.Attribute{
			"driver.java":         driver.Bool(true),
			"driver.java.version": driver.String(property(release, "JAVA_VERSION")),
			"driver.java.runtime": driver.String(property(release, "JAVA_RUNTIME_VERSION")),
			"driver.java.vendor":  driver.String(property(release, "IMPLEMENTOR")),
		},
	}, nil
}

// property returns a line's value of the form NAME="value"; "" without such a line.
func property(release []byte, name string) string {
	_, after, _ := strings.Cut("\n"+string(release), "\n"+name+`="`)
	value, _, _ := strings.Cut(after, `"`)
	return value
}

func (j *java) StartTask(ctx context.Context, task *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	c, err := config.Parse(task.DriverConfig)
	if err != nil {
		return nil, nil, abi.NewError(abi.InvalidArgument, "config: "+err.Error())
	}
	id, err := process.Start(ctx, &process.Command{
		Command:   j.home + "/bin/java",
		Args:      arguments(c),
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

// arguments are Java's own, what to run, and its arguments.
func arguments(c config.Value) []string {
	args := c.Get("jvm_options").Texts()
	if classPath := c.Get("class_path").Text(); classPath != "" {
		args = append(args, "-cp", classPath)
	}
	if jar := c.Get("jar_path").Text(); jar != "" {
		args = append(args, "-jar", jar)
	} else {
		args = append(args, c.Get("class").Text())
	}
	return append(args, c.Get("args").Texts()...)
}
