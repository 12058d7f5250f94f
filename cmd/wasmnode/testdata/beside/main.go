// Command beside is a driver plugin whose tasks are two shells: one is the task's own workload,
// and another stands beside it and is started first. A task's config has a script for each, and may
// have another program than a shell for its own.
package main

import (
	"context"
	"time"

	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/process"
	"github.com/wasmnode/wasmnode/sdk/go/workload"
)

const schema = `{"type": "object", "required": ["own", "side"], "additionalProperties": false, "properties": {
  "own":     {"type": "string"},
  "side":    {"type": "string"},
  "command": {"type": "string", "default": "/bin/sh"}
}}`

func init() { driver.Serve(beside{}) }

func main() {}

type beside struct{}

func (beside) Describe() *driver.Description {
	return &driver.Description{
		Name: "beside", Version: "0.1.0", TaskConfigSchema: schema,
		Capabilities: &driver.Capabilities{SendSignals: true, FilesystemIsolation: driver.IsolationNone},
	}
}

func (beside) Configure(context.Context, []byte) error { return nil }

func (beside) Fingerprint(context.Context) (*driver.Fingerprint, error) {
	return &driver.Fingerprint{Health: driver.Healthy}, nil
}

func (beside) StartTask(ctx context.Context, task *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	c, err := config.Parse(task.DriverConfig)
	if err != nil {
		return nil, nil, err
	}
	shell := process.Command{Command: "/bin/sh", Env: task.Env, Isolation: process.IsolationNone}
	side, own := shell, shell
	side.Name, side.Args = "side", []string{"-c", c.Get("side").Text()}
	own.Command, own.Args = c.Get("command").Text(), []string{"-c", c.Get("own").Text()}
	if _, err := process.Start(ctx, &side); err != nil {
		return nil, nil, err
	}
	id, err := process.Start(ctx, &own)
	return &driver.TaskHandle{WorkloadId: id}, nil, err
}

// RecoverTask takes a task back of which both are known.
func (beside) RecoverTask(ctx context.Context, _ *driver.TaskConfig, _ *driver.TaskHandle) (*driver.TaskHandle, error) {
	for _, name := range []string{"", "side"} {
		if _, err := workload.Inspect(ctx, name); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// SignalTask sends a signal to both.
func (beside) SignalTask(ctx context.Context, _ string, _ *driver.TaskHandle, signal string) (*driver.TaskHandle, error) {
	if err := workload.Signal(ctx, "side", signal); err != nil {
		return nil, err
	}
	return nil, workload.Signal(ctx, "", signal)
}

// StopTask stops the one beside before the task's own, which would have it killed.
func (beside) StopTask(ctx context.Context, _ string, _ *driver.TaskHandle, signal string, timeout time.Duration) (*driver.TaskHandle, error) {
	if err := workload.Stop(ctx, "side", "SIGTERM", timeout/2); err != nil {
		return nil, err
	}
	return nil, workload.Stop(ctx, "", signal, timeout/2)
}

// TaskStats tells the memory of both.
func (beside) TaskStats(ctx context.Context, _ string, _ *driver.TaskHandle) (*driver.TaskStats, error) {
	own, err := workload.Stats(ctx, "")
	if err != nil {
		return nil, err
	}
	side, err := workload.Stats(ctx, "side")
	if err != nil {
		return nil, err
	}
	all := own.GetMemoryRssBytes() + side.GetMemoryRssBytes()
	return &driver.TaskStats{TimeNs: own.TimeNs, MemoryRssBytes: &all}, nil
}
