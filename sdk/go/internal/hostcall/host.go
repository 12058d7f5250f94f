package hostcall

import (
	"context"
	"errors"

	"github.com/wasmnode/wasmnode/abi"
)

// Host answers capabilities natively. Its methods mirror the imports one for one
// and may be called concurrently.
type Host interface {
	LogWrite(level uint32, message string, fields []byte)
	TaskEvent(event []byte) error
	TaskRefresh()
	TaskOutput(stream uint32, data []byte) error
	// TaskDirs are the directories of the task that the call is about; empty: of none.
	TaskDirs() (task, alloc string)
	TaskMark(stream uint32, mark []byte) error
	TaskMarked(stream uint32) ([]byte, error)
	WasmStart(request []byte) ([]byte, error)
	ProcessStart(request []byte) ([]byte, error)
	ProcessSupport(request []byte) ([]byte, error)
	ProcessRun(request []byte) ([]byte, error)
	KVGet(request []byte) ([]byte, error)
	KVSet(request []byte) ([]byte, error)
	KVDelete(request []byte) ([]byte, error)
	KVList(request []byte) ([]byte, error)
	StreamRead(stream uint32, p []byte) (int, error)
	StreamWrite(stream uint32, p []byte) (int, error)
	StreamShutdown(stream uint32) error
	StreamClose(stream uint32) error
	StreamBlocking(stream uint32, on bool) error
	StreamPoll(request []byte) ([]byte, error)
	NetDial(request []byte) ([]byte, error)
	HTTPRequest(request []byte) ([]byte, error)
	HTTPResponse(stream uint32) ([]byte, error)
	HTTPTrailers(stream uint32) ([]byte, error)
	ExecOpen() ([]byte, error)
	// Workload is a function of wasmnode:workload/v1, by its name.
	Workload(function string, request []byte) ([]byte, error)
}

// ErrWouldBlock is what StreamRead and StreamWrite end with that would have to wait, of a stream
// that is not blocking.
var ErrWouldBlock = errors.New("it would have to wait")

// Ask encodes a request, hands it over with one of the functions of this package, and decodes
// the answer.
func Ask(
	ctx context.Context, handOver func(context.Context, []byte) ([]byte, error),
	request interface{ MarshalVT() ([]byte, error) }, answer interface{ UnmarshalVT(b []byte) error },
) error {
	encoded, err := request.MarshalVT()
	if err != nil {
		return err
	}
	got, err := handOver(ctx, encoded)
	if err != nil {
		return err
	}
	return answer.UnmarshalVT(got)
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
