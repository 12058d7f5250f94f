package hostcall

import (
	"context"

	"github.com/wasmnode/wasmnode/abi"
)

// Host answers capabilities natively. Its methods mirror the imports one for one
// and may be called concurrently.
type Host interface {
	LogWrite(level uint32, message string, fields []byte)
	TaskEvent(event []byte) error
	TaskRefresh()
	TaskOutput(stream uint32, data []byte) error
	WasmStart(request []byte) ([]byte, error)
	ProcessStart(request []byte) ([]byte, error)
	ProcessSupport(request []byte) ([]byte, error)
}

type hostKey struct{}

// WithHost returns a context whose capabilities are answered by h.
func WithHost(ctx context.Context, h Host) context.Context {
	return context.WithValue(ctx, hostKey{}, h)
}

// errNoHost is what a capability answers natively outside of a test node.
var errNoHost = abi.NewError(abi.FailedPrecondition,
	"no host: natively a driver runs under drivertest, with the context that it was called with")

func hostOf(ctx context.Context) (Host, error) {
	if h, ok := ctx.Value(hostKey{}).(Host); ok {
		return h, nil
	}
	return nil, errNoHost
}
