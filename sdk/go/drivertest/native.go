package drivertest

import (
	"context"
	"fmt"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
)

// native makes plugins that run as ordinary Go.
type native func() handler

// handler performs the operations of one plugin.
type handler func(ctx context.Context, operation string, request []byte) ([]byte, error)

func (n native) instance(_ context.Context, host hostcall.Host) (instance, error) {
	return &nativeInstance{handle: n(), host: host}, nil
}

type nativeInstance struct {
	handle handler
	host   hostcall.Host
}

func (i *nativeInstance) call(ctx context.Context, operation string, request []byte) (answer []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			answer, err = nil, &FaultError{Operation: operation, Cause: fmt.Errorf("panic: %v", r)}
		}
	}()
	answer, err = i.handle(hostcall.WithHost(ctx, i.host), operation, request)
	if err != nil {
		// What crosses the sandbox is the message, not the value.
		return nil, abi.FromProto(abi.Proto(err))
	}
	return answer, nil
}

func (*nativeInstance) close(context.Context) {}
