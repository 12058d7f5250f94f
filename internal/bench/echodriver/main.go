// Command echodriver is wasmnode's half of the echo benchmark: a driver that answers
// with the handle that it was given.
package main

import (
	"context"

	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

func init() { driver.Serve(echo{}) }

func main() {}

type echo struct{}

var _ driver.TaskRecoverer = echo{}

func (echo) Describe() *driver.Description {
	return &driver.Description{Name: "echo", Version: "0.1.0", Capabilities: &driver.Capabilities{}}
}

func (echo) Configure(context.Context, []byte) error { return nil }

func (echo) Fingerprint(context.Context) (*driver.Fingerprint, error) {
	return &driver.Fingerprint{Health: driver.Healthy}, nil
}

func (echo) StartTask(context.Context, *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	return &driver.TaskHandle{}, nil, nil
}

func (echo) RecoverTask(_ context.Context, _ *driver.TaskConfig, handle *driver.TaskHandle) (*driver.TaskHandle, error) {
	return handle, nil
}
