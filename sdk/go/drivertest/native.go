package drivertest

import (
	"context"
	"fmt"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
)

// native is a driver that runs as ordinary Go.
type native func() driver.Driver

func (n native) instance(_ context.Context, host hostcall.Host) (instance, error) {
	return &nativeInstance{driver: n(), host: host}, nil
}

type nativeInstance struct {
	driver driver.Driver
	host   hostcall.Host
}

func (i *nativeInstance) call(ctx context.Context, operation string, request []byte) (answer []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			answer, err = nil, &FaultError{Operation: operation, Cause: fmt.Errorf("panic: %v", r)}
		}
	}()
	answer, err = driver.Handle(hostcall.WithHost(ctx, i.host), i.driver, operation, request)
	if err != nil {
		// What crosses the sandbox is the message, not the value.
		return nil, abi.FromProto(abi.Proto(err))
	}
	return answer, nil
}

func (*nativeInstance) close(context.Context) {}
