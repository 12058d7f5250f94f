// Command exec is a driver whose commands say on standard error what their terminal's sizes
// are, and on standard output what they read.
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/wasmnode/wasmnode/sdk/go/command"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

func init() { driver.Serve(commands{}) }

func main() {}

type commands struct{}

func (commands) Describe() *driver.Description {
	return &driver.Description{Name: "exec", Version: "1.0.0", Capabilities: &driver.Capabilities{Exec: true}}
}

func (commands) Configure(context.Context, []byte) error { return nil }

func (commands) Fingerprint(context.Context) (*driver.Fingerprint, error) {
	return &driver.Fingerprint{Health: driver.Healthy}, nil
}

func (commands) StartTask(context.Context, *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	return &driver.TaskHandle{}, nil, nil
}

// Exec ends with its input, and with the number of its arguments.
func (commands) Exec(ctx context.Context, _ string, _ *driver.TaskHandle, c *driver.Command) (*driver.ExitResult, error) {
	streams, err := command.Open(ctx)
	if err != nil {
		return nil, err
	}
	if c.TTY {
		fmt.Fprintln(streams.Stderr, "size", c.Size.Rows, c.Size.Columns)
		go func() {
			for {
				size, err := streams.NextSize()
				if err != nil {
					return
				}
				fmt.Fprintln(streams.Stderr, "size", size.Rows, size.Columns)
			}
		}()
	}
	if _, err := io.Copy(streams.Stdout, streams.Stdin); err != nil {
		return nil, err
	}
	return &driver.ExitResult{ExitCode: int32(len(c.Args))}, nil
}
