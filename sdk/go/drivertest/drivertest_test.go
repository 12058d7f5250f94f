package drivertest_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
	"github.com/wasmnode/wasmnode/sdk/go/log"
	"github.com/wasmnode/wasmnode/sdk/go/task"
	"github.com/wasmnode/wasmnode/sdk/go/wasm"
)

// probe does to the node what its fields say.
type probe struct {
	describe  func() *driver.Description
	configure func(context.Context) error
	start     func(context.Context, *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error)
	calls     *int
	memory    int
}

func (p *probe) Describe() *driver.Description {
	if p.describe != nil {
		return p.describe()
	}
	return &driver.Description{Name: "probe", Version: "1.0.0", TaskConfigSchema: `{
		"type": "object", "additionalProperties": false,
		"properties": {"greeting": {"type": "string", "default": "hello"},
			"list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "default": 7}}}}}}`}
}

func (p *probe) Configure(ctx context.Context, config []byte) error {
	if string(config) != "{}" {
		return abi.NewError(abi.InvalidArgument, "config "+string(config))
	}
	if p.calls != nil {
		*p.calls++
	}
	if p.configure != nil {
		return p.configure(ctx)
	}
	return nil
}

func (p *probe) Fingerprint(ctx context.Context) (*driver.Fingerprint, error) {
	p.memory++
	log.Info(ctx, "fingerprint", "memory", p.memory)
	task.Refresh(ctx)
	return &driver.Fingerprint{Health: driver.Healthy}, nil
}

func (p *probe) StartTask(ctx context.Context, t *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	return p.start(ctx, t)
}

func TestEveryCallHasANewConfiguredInstance(t *testing.T) {
	configured := 0
	node := drivertest.New(t, func() driver.Driver { return &probe{calls: &configured} })
	for range 2 {
		f, err := node.Fingerprint()
		expect.NoError(t, err)
		expect.Equal(t, f.Health, driver.Healthy)
	}
	expect.Equal(t, configured, 2)
	expect.Equal(t, node.Refreshes(), 2)
	for _, line := range node.Logs() {
		expect.Equal(t, line, drivertest.LogLine{Level: "info", Message: "fingerprint", Fields: map[string]string{"memory": "1"}})
	}
}

func TestATasksConfigIsCheckedAndGetsItsDefaults(t *testing.T) {
	node := drivertest.New(t, func() driver.Driver { return &probe{} })
	expect.Equal(t, string(node.Task(`{"list": [{}, {"n": 1}]}`).DriverConfig), `{"greeting":"hello","list":[{"n":7},{"n":1}]}`)
	for config, want := range map[string]string{`{"greting": "hi"}`: "greting", `{"greeting": 1}`: "greeting", `{`: "not JSON"} {
		_, err := node.TryTask(config)
		expect.ErrorContains(t, err, want, config)
	}
	expect.ErrorContains(t, node.Configure(`{"any": 1}`), "any", "a driver without a schema takes no configuration")
}

func TestCapabilitiesAnswerAsTheNodeDoes(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(context.Context, *driver.TaskConfig) error
		want abi.Code
	}{
		"event of 1 KiB": {func(ctx context.Context, t *driver.TaskConfig) error {
			return task.Event(ctx, t.Id, strings.Repeat("x", 1024), nil)
		}, 0},
		"event of another task": {func(ctx context.Context, _ *driver.TaskConfig) error {
			return task.Event(ctx, "another", "text", nil)
		}, abi.PermissionDenied},
		"event with 33 annotations": {func(ctx context.Context, t *driver.TaskConfig) error {
			annotations := make(map[string]string)
			for i := range 33 {
				annotations[strconv.Itoa(i)] = ""
			}
			return task.Event(ctx, t.Id, "text", annotations)
		}, abi.InvalidArgument},
		"output in pieces": {func(ctx context.Context, _ *driver.TaskConfig) error {
			n, err := task.Stderr(ctx).Write(make([]byte, 200<<10))
			if err == nil && n != 200<<10 {
				return errors.New("short write")
			}
			return err
		}, 0},
		"no module": {func(ctx context.Context, _ *driver.TaskConfig) error {
			_, err := wasm.Start(ctx, &wasm.Program{})
			return err
		}, abi.InvalidArgument},
		"mount without a host path": {func(ctx context.Context, _ *driver.TaskConfig) error {
			_, err := wasm.Start(ctx, &wasm.Program{Module: "m", Mounts: []*driver.Mount{{TaskPath: "/x"}}})
			return err
		}, abi.InvalidArgument},
		"two workloads": {func(ctx context.Context, _ *driver.TaskConfig) error {
			_, err := wasm.Start(ctx, &wasm.Program{Module: "m"})
			if err == nil {
				_, err = wasm.Start(ctx, &wasm.Program{Module: "m"})
			}
			return err
		}, abi.AlreadyExists},
		"without the call's context": {func(context.Context, *driver.TaskConfig) error {
			return task.Event(context.Background(), "id", "text", nil)
		}, abi.FailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			node := drivertest.New(t, func() driver.Driver {
				return &probe{start: func(ctx context.Context, t *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
					return &driver.TaskHandle{}, nil, c.do(ctx, t)
				}}
			})
			_, _, err := node.StartTask(node.Task(""))
			expect.Code(t, err, c.want)
		})
	}
}

func TestAnEventsMessageIsCutAt1KiB(t *testing.T) {
	node := drivertest.New(t, func() driver.Driver {
		return &probe{start: func(ctx context.Context, t *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
			return &driver.TaskHandle{}, nil, task.Event(ctx, t.Id, strings.Repeat("x", 1025), nil)
		}}
	})
	_, _, err := node.StartTask(node.Task(""))
	expect.NoError(t, err)
	expect.Equal(t, len(node.Events()[0].Message), 1024)
}

func TestAnEventOfACallAboutNoTaskIsRefusedAsByANode(t *testing.T) {
	node := drivertest.New(t, func() driver.Driver {
		return &probe{configure: func(ctx context.Context) error { return task.Event(ctx, "id", "text", nil) }}
	})
	expect.Code(t, node.Configure("{}"), abi.FailedPrecondition)
	expect.Equal(t, len(node.Events()), 0)
}

func TestAPanicIsAFaultOfThatCall(t *testing.T) {
	node := drivertest.New(t, func() driver.Driver {
		return &probe{start: func(context.Context, *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) { panic("oh no") }}
	})
	_, _, err := node.StartTask(node.Task(""))
	var fault *drivertest.FaultError
	expect.True(t, errors.As(err, &fault))
	expect.ErrorContains(t, err, "driver_start_task: fault: panic: oh no")
	_, err = node.Fingerprint()
	expect.NoError(t, err)
}

func TestAClockMovesOnlyBySleeping(t *testing.T) {
	clock := drivertest.NewClock()
	start := clock.Now()
	clock.Sleep(-time.Second)
	expect.Equal(t, clock.Now(), start)
	clock.Sleep(time.Hour)
	expect.Equal(t, clock.Now().Sub(start), time.Hour)
}

func TestATaskHasItsDirectoriesWithoutAGrant(t *testing.T) {
	node := drivertest.New(t, func() driver.Driver {
		return &probe{start: func(ctx context.Context, t *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
			expected := []string{t.Directories.Task, t.Directories.Shared}
			if got := []string{task.Dir(ctx), task.AllocDir(ctx)}; got[0] != expected[0] || got[1] != expected[1] {
				return nil, nil, fmt.Errorf("%q, not %q", got, expected)
			}
			return &driver.TaskHandle{}, nil, nil
		}, configure: func(context.Context) error { return nil }}
	})
	_, _, err := node.StartTask(node.Task(""))
	expect.NoError(t, err)
	expect.Equal(t, task.Dir(context.Background()), "")
}
