// Command image is a driver plugin that runs a command in an image that its task names, with a
// directory of the machine's.
package main

import (
	"context"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/process"
)

func init() { driver.Serve(image{}) }

func main() {}

type image struct{}

const taskSchema = `{"type": "object", "additionalProperties": false, "properties": {
	"image": {"type": "string"}, "data": {"type": "string"}, "script": {"type": "string"},
	"side_image": {"type": "string"}, "side": {"type": "string"}}}`

func (image) Describe() *driver.Description {
	return &driver.Description{
		Name: "image", Version: "0.1.0", TaskConfigSchema: taskSchema,
		Capabilities: &driver.Capabilities{SendSignals: true, Exec: true, FilesystemIsolation: driver.IsolationImage},
	}
}

func (image) Configure(context.Context, []byte) error { return nil }

func (image) Fingerprint(context.Context) (*driver.Fingerprint, error) {
	return &driver.Fingerprint{Health: driver.Healthy, Description: "Healthy"}, nil
}

func (image) StartTask(ctx context.Context, task *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	c, err := config.Parse(task.DriverConfig)
	if err != nil {
		return nil, nil, abi.NewError(abi.InvalidArgument, "config: "+err.Error())
	}
	if side := c.Get("side").Text(); side != "" {
		_, err := process.Start(ctx, &process.Command{
			Name: "side", Command: "/bin/sh", Args: []string{"-c", side}, Env: task.Env,
			User: "nobody", Isolation: process.IsolationFull, Root: c.Get("side_image").Text(),
		})
		if err != nil {
			return nil, nil, err
		}
	}
	id, err := process.Start(ctx, &process.Command{
		Command: "/bin/sh", Args: []string{"-c", c.Get("script").Text()}, Env: task.Env,
		User: "nobody", Isolation: process.IsolationFull,
		Root: c.Get("image").Text(), Mounts: []*process.Mount{{Source: c.Get("data").Text(), Target: "/data", ReadOnly: true}},
	})
	return &driver.TaskHandle{WorkloadId: id}, nil, err
}
