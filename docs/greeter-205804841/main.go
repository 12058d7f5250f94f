// Command engine is a driver that knows the version of an engine.
package main

import (
	"context"
	"io"
	"net/http"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/httpclient"
)

func init() { driver.Serve(engine{}) }

func main() {}

type engine struct{}

func (engine) Describe() *driver.Description {
	return &driver.Description{Name: "engine", Version: "0.1.0"}
}

func (engine) Configure(context.Context, []byte) error { return nil }

func (engine) Fingerprint(ctx context.Context) (*driver.Fingerprint, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/version", nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &httpclient.Transport{Socket: "/run/engine.sock"}}
	response, err := client.Do(request)
	if err != nil { // not granted, not running: the text says which
		return &driver.Fingerprint{Health: driver.Unhealthy, Description: err.Error()}, nil
	}
	defer response.Body.Close()
	version, err := io.ReadAll(io.LimitReader(response.Body, 64))
	if err != nil {
		return nil, err
	}
	return &driver.Fingerprint{Health: driver.Healthy, Description: "version " + string(version)}, nil
}

func (engine) StartTask(context.Context, *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	return nil, nil, abi.NewError(abi.Unimplemented, "this one only knows its version")
}
