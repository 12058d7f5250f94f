// Command dialer is a driver whose tasks send text to a socket and tell what comes back.
package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/network"
)

func init() { driver.Serve(Dialer{}) }

func main() {}

// Dialer is the driver.
type Dialer struct{}

// Describe implements [driver.Driver].
func (Dialer) Describe() *driver.Description {
	return &driver.Description{Name: "dialer", Version: "1.0.0"}
}

// Configure implements [driver.Driver].
func (Dialer) Configure(context.Context, []byte) error { return nil }

// Fingerprint implements [driver.Driver].
func (Dialer) Fingerprint(context.Context) (*driver.Fingerprint, error) {
	return &driver.Fingerprint{Health: driver.Healthy}, nil
}

// StartTask writes and reads at once, as clients do.
func (Dialer) StartTask(ctx context.Context, _ *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	conn, err := network.Dial(ctx, "unix", "/run/echo.sock")
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	written := make(chan error, 1)
	go func() {
		_, err := io.Copy(conn, strings.NewReader(strings.Repeat("x", 1<<20)))
		written <- errors.Join(err, conn.(interface{ CloseWrite() error }).CloseWrite())
	}()
	read, err := io.Copy(io.Discard, conn)
	if err := errors.Join(err, <-written); err != nil {
		return nil, nil, err
	}
	return &driver.TaskHandle{Version: uint32(read)}, nil, nil
}
