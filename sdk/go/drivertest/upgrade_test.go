package drivertest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
)

// build is a build of a driver: one of its version reads the handles of those before it.
type build struct {
	name      string
	version   uint32
	forgetful bool // it knows no task that it has not started
	refuses   bool // its configuration
	unhealthy error
	greeting  string
	seen      *[]string // greetings that tasks were recovered with
}

func (b *build) Describe() *driver.Description {
	return &driver.Description{
		Name: b.name, Version: "1.0.0",
		PluginConfigSchema: `{"type": "object", "additionalProperties": false, "properties": {"greeting": {"type": "string", "default": "hello"}}}`,
		TaskConfigSchema:   `{"type": "object", "additionalProperties": false}`,
	}
}

func (b *build) Configure(_ context.Context, config []byte) error {
	if b.refuses {
		return abi.NewError(abi.InvalidArgument, "not this")
	}
	b.greeting = string(config)
	return nil
}

func (b *build) Fingerprint(context.Context) (*driver.Fingerprint, error) {
	return &driver.Fingerprint{Health: driver.Healthy}, b.unhealthy
}

func (b *build) StartTask(context.Context, *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	return &driver.TaskHandle{Version: b.version}, nil, nil
}

func (b *build) RecoverTask(_ context.Context, t *driver.TaskConfig, h *driver.TaskHandle) (*driver.TaskHandle, error) {
	if b.forgetful || h.GetVersion() > b.version {
		return nil, abi.ErrTaskNotFound
	}
	*b.seen = append(*b.seen, t.AllocId[len(t.AllocId)-1:]+b.greeting)
	return &driver.TaskHandle{Version: b.version}, nil
}

func (b *build) StopTask(_ context.Context, _ string, h *driver.TaskHandle, _ string, _ time.Duration) (*driver.TaskHandle, error) {
	return &driver.TaskHandle{Version: h.Version, DriverState: []byte("stopped")}, nil
}

func (b *build) DestroyTask(context.Context, string, *driver.TaskHandle, bool) error { return nil }

func TestAnUpgradeHandsTheTasksOver(t *testing.T) {
	var seen []string
	of := func(b build) func() driver.Driver {
		b.name, b.seen = "build", &seen
		return func() driver.Driver { next := b; return &next }
	}
	node := drivertest.New(t, of(build{version: 1}))
	expect.NoError(t, node.Configure(`{"greeting": "hi"}`))
	tasks := []*driver.TaskConfig{node.Task(""), node.Task(""), node.Task("")}
	for _, task := range tasks {
		expect.Equal(t, node.Handle(task) == nil, true)
		_, _, err := node.StartTask(task)
		expect.NoError(t, err)
	}
	_, err := node.StopTask(tasks[1], node.Handle(tasks[1]), "SIGTERM", time.Second)
	expect.NoError(t, err)
	expect.Equal(t, string(node.Handle(tasks[1]).DriverState), "stopped")
	expect.NoError(t, node.DestroyTask(tasks[2], node.Handle(tasks[2]), false))

	expect.NoError(t, node.UpgradeNative(of(build{version: 2})))
	expect.Equal(t, seen, []string{`1{"greeting":"hi"}`, `2{"greeting":"hi"}`}, "those that are there, configured as before")
	expect.Equal(t, node.Handle(tasks[0]).Version, uint32(2))
	expect.Equal(t, node.Handle(tasks[2]) == nil, true)

	seen = nil
	expect.NoError(t, node.Restart())
	expect.Equal(t, len(seen), 2)

	for want, b := range map[string]build{
		"the plugin is build, and the other build says that it is other": {name: "other"},
		"configure: not this":   {name: "build", refuses: true},
		"fingerprint: not well": {name: "build", unhealthy: errors.New("not well")},
	} {
		b.seen, b.version = &seen, 3
		expect.Message(t, node.UpgradeNative(func() driver.Driver { next := b; return &next }), want)
	}
	expect.ErrorContains(t, node.Upgrade([]byte("no plugin")), "magic")
	_, _, err = node.StartTask(tasks[2])
	expect.NoError(t, err)
	expect.Equal(t, node.Handle(tasks[2]).Version, uint32(2), "the old one stayed")

	err = node.UpgradeNative(of(build{version: 1}))
	expect.ErrorContains(t, err, "task "+tasks[0].Id+": ")
	expect.True(t, errors.Is(err, abi.ErrTaskNotFound))
}
