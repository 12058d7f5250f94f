// Command mock is the driver plugin "mock_driver": it runs nothing and behaves as its
// configuration says. With it one tests whatever is above drivers.
//
// The node may throw an instance away after any call, so this driver keeps nothing in
// memory: a task is its handle (see task.go), and how it ends follows from the
// handle and the clock.
package main

import (
	"context"
	_ "embed"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/log"
	"github.com/wasmnode/wasmnode/sdk/go/task"
)

//go:embed plugin_schema.json
var pluginSchema string

//go:embed task_schema.json
var taskSchema string

func init() { driver.Serve(&mock{now: time.Now, sleep: time.Sleep}) }

func main() {}

type mock struct {
	config config.Value
	now    func() time.Time
	sleep  func(time.Duration)
}

func (*mock) Describe() *driver.Description {
	return &driver.Description{
		Name:    "mock_driver",
		Version: "0.1.0",
		Capabilities: &driver.Capabilities{
			SendSignals:         true,
			NetworkNamespaces:   true, // whatever they are: its tasks use none
			Exec:                true,
			FilesystemIsolation: driver.IsolationNone,
		},
		PluginConfigSchema: pluginSchema,
		TaskConfigSchema:   taskSchema,
	}
}

func (m *mock) Configure(_ context.Context, data []byte) error {
	c, err := config.Parse(data)
	if err != nil {
		return abi.NewError(abi.InvalidArgument, "config: "+err.Error())
	}
	if text := c.Get("configure_error").Text(); text != "" {
		return abi.NewError(abi.FailedPrecondition, text)
	}
	m.config = c
	return nil
}

func (m *mock) Fingerprint(context.Context) (*driver.Fingerprint, error) {
	if text := m.config.Get("fingerprint_error").Text(); text != "" {
		return nil, abi.NewError(abi.Unavailable, text)
	}
	next, err := m.config.Get("next_poll").Duration()
	if err != nil {
		return nil, abi.NewError(abi.InvalidArgument, "next_poll: "+err.Error())
	}
	f := &driver.Fingerprint{
		Health:      driver.Healthy,
		Description: "Healthy",
		Attributes:  map[string]*driver.Attribute{"driver.mock_driver": driver.Bool(true)},
		NextPollMs:  uint32(next.Milliseconds()),
	}
	switch m.config.Get("health").Text() {
	case "unhealthy":
		f.Health, f.Description = driver.Unhealthy, "Unhealthy"
	case "undetected":
		f.Health, f.Description, f.Attributes = driver.Undetected, "Undetected", nil
	}
	if text := m.config.Get("health_description").Text(); text != "" {
		f.Description = text
	}
	if f.Attributes != nil {
		for name, value := range m.config.Get("attributes").Map() {
			f.Attributes["driver.mock_driver."+name] = driver.String(value)
		}
	}
	return f, nil
}

func (m *mock) StartTask(ctx context.Context, t *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	c, err := config.Parse(t.DriverConfig)
	if err != nil {
		return nil, nil, abi.NewError(abi.InvalidArgument, "config: "+err.Error())
	}
	block, err := c.Get("start_block_for").Duration()
	if err != nil {
		return nil, nil, abi.NewError(abi.InvalidArgument, "start_block_for: "+err.Error())
	}
	m.sleep(block)
	if text := c.Get("start_error").Text(); text != "" {
		if c.Get("start_error_recoverable").Bool() {
			return nil, nil, abi.NewRecoverableError(abi.Unknown, text)
		}
		return nil, nil, abi.NewError(abi.Unknown, text)
	}
	breakInstance(c.Get("start_fault").Text())

	if text := c.Get("start_event").Text(); text != "" {
		if err := task.Event(ctx, t.Id, text, nil); err != nil {
			return nil, nil, err
		}
	}
	state := taskState{raw: t.DriverConfig, config: c, started: m.now()}
	if err := state.check(); err != nil {
		return nil, nil, err
	}
	if err := state.writeFirst(task.Stdout(ctx), task.Stderr(ctx)); err != nil {
		return nil, nil, err
	}
	log.Debug(ctx, "mock task started", "task_id", t.Id, "run_for", state.command().runFor)
	return state.handle(), network(c), nil
}

// breakInstance is for tests of the host: a guest that traps, exits or never returns.
func breakInstance(how string) {
	switch how {
	case "trap":
		panic("the fault is trap")
	case "exit":
		syscall.Exit(3) // as os.Exit, without package os
	case "loop":
		for { //nolint:staticcheck // SA5002: a guest that never returns is the point
		}
	}
}

func network(c config.Value) *driver.Network {
	ip := c.Get("driver_ip").Text()
	if ip == "" {
		return nil
	}
	n := &driver.Network{Ip: ip, AutoAdvertise: c.Get("driver_advertise").Bool()}
	if label, number, ok := strings.Cut(c.Get("driver_port_map").Text(), ":"); ok {
		// The schema has checked that it is a number.
		port, _ := strconv.ParseUint(number, 10, 16)
		n.PortMap = map[string]uint32{label: uint32(port)}
	}
	return n
}
