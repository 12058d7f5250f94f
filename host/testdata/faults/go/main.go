// Command faults is a driver whose tasks say how it goes wrong.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/log"
	"github.com/wasmnode/wasmnode/sdk/go/task"
)

func init() { driver.Serve(faults{}) }

func main() {}

type faults struct{}

func (faults) Describe() *driver.Description {
	return &driver.Description{
		Name: "faults_go", Version: "0.1.0", Capabilities: &driver.Capabilities{},
		TaskConfigSchema: `{"type": "object", "properties": {"how": {"type": "string"}, "pin": {"type": "string", "writeOnly": true}}, "additionalProperties": false}`,
	}
}

func (faults) Configure(context.Context, []byte) error { return nil }

func (faults) Fingerprint(context.Context) (*driver.Fingerprint, error) {
	return &driver.Fingerprint{Health: driver.Healthy}, nil
}

func (faults) StartTask(ctx context.Context, t *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	var config struct{ How string }
	if err := json.Unmarshal(t.DriverConfig, &config); err != nil {
		return nil, nil, err
	}
	fmt.Fprintln(os.Stderr, "starting a task")
	handle := &driver.TaskHandle{Version: 1}
	switch config.How {
	case "panic":
		deep(200, nil)
	case "nil":
		fmt.Fprintln(os.Stderr, *(*string)(nil))
	case "loop":
		spin()
	case "tell", "tell and panic":
		all := fmt.Sprint(t.Env, string(t.DriverConfig))
		fmt.Fprintln(os.Stderr, all)
		log.Info(ctx, all, "all", all)
		if err := task.Event(ctx, t.Id, all, map[string]string{"all": all}); err != nil {
			return nil, nil, err
		}
		if config.How == "tell" {
			return nil, nil, errors.New(all)
		}
		panic(all)
	case "slow":
		time.Sleep(time.Hour)
	case "leak":
		for kept := [][]byte{}; ; {
			kept = append(kept, make([]byte, 16<<20))
		}
	case "lost event":
		// One of a task that is not this call's.
		if err := task.Event(ctx, "another/task/00000001", "it runs", nil); err != nil {
			return nil, nil, fmt.Errorf("send an event: %w", err)
		}
	case "wrong handle":
		handle.WorkloadId = "another/task/00000001"
	case "noise":
		for i := range 1000 {
			fmt.Fprintln(os.Stderr, "noise", i)
		}
		panic("\x1b[31mred\n\tand a second line")
	}
	return handle, nil, nil
}

// WaitTask lets what was started run.
func (faults) WaitTask(context.Context, string, *driver.TaskHandle) (*driver.ExitResult, time.Duration, error) {
	return nil, time.Minute, nil
}

// StopTask cannot be done.
func (faults) StopTask(context.Context, string, *driver.TaskHandle, string, time.Duration) (*driver.TaskHandle, error) {
	return nil, errors.New("there is nothing to stop")
}

// deep panics below more frames than anybody reads.
func deep(n int, m map[string]int) {
	if n == 0 {
		m["x"] = 1
	}
	deep(n-1, m)
}

//go:noinline
func spin() {
	for n := 0; ; n++ {
		_ = n
	}
}
