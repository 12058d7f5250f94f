package driver_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/log"
	"github.com/wasmnode/wasmnode/sdk/go/wasm"
)

// greeter runs one program, with a greeting that the job file chooses.
type greeter struct{ program string }

func (*greeter) Describe() *driver.Description {
	return &driver.Description{
		Name:    "greeter",
		Version: "1.0.0",
		PluginConfigSchema: `{"type": "object", "additionalProperties": false, "properties": {
			"program": {"type": "string", "default": "/opt/greet.wasm", "description": "The program that greets."}}}`,
		TaskConfigSchema: `{"type": "object", "additionalProperties": false, "required": ["name"], "properties": {
			"name": {"type": "string", "description": "Whom to greet."}}}`,
	}
}

func (g *greeter) Configure(_ context.Context, data []byte) error {
	c, err := config.Parse(data)
	g.program = c.Get("program").Text()
	return err
}

func (g *greeter) Fingerprint(context.Context) (*driver.Fingerprint, error) {
	return &driver.Fingerprint{Health: driver.Healthy, Description: "ready to greet"}, nil
}

func (g *greeter) StartTask(ctx context.Context, task *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	c, err := config.Parse(task.DriverConfig)
	if err != nil {
		return nil, nil, abi.NewError(abi.InvalidArgument, "config: "+err.Error())
	}
	id, err := wasm.Start(ctx, &wasm.Program{Module: g.program, Args: []string{c.Get("name").Text()}, Env: task.Env})
	if err != nil {
		return nil, nil, err
	}
	log.Info(ctx, "greeting", "task_id", task.Id)
	return &driver.TaskHandle{WorkloadId: id}, nil, nil
}

// A plugin's main package has this in an init function and an empty main.
func ExampleServe() {
	driver.Serve(&greeter{})
}

// A driver is tested with the node around it emulated.
func Example() {
	var t testing.TB = &exampleT{} // in a test, its *testing.T
	node := drivertest.New(t, func() driver.Driver { return &greeter{} })

	_, _, err := node.StartTask(node.Task(`{"name": "world"}`))
	fmt.Println(err, node.Programs()[0].Module, node.Programs()[0].Args)

	_, err = node.TryTask(`{"nam": "world"}`)
	fmt.Println(err != nil)
	// Output:
	// <nil> /opt/greet.wasm [world]
	// true
}
