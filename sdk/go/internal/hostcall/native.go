//go:build !wasip1

package hostcall

import (
	"context"

	"github.com/wasmnode/wasmnode/abi"
)

// LogWrite writes one log line; fields is an encoded LogFields.
func LogWrite(ctx context.Context, level uint32, message string, fields []byte) {
	if h, err := hostOf(ctx); err == nil {
		h.LogWrite(level, message, fields)
	}
}

// TaskEvent hands over an encoded TaskEvent.
func TaskEvent(ctx context.Context, event []byte) error {
	h, err := hostOf(ctx)
	if err != nil {
		return err
	}
	return h.TaskEvent(event)
}

// TaskRefresh asks for an early fingerprint.
func TaskRefresh(ctx context.Context) {
	if h, err := hostOf(ctx); err == nil {
		h.TaskRefresh()
	}
}

// TaskOutput appends to the task's standard output (stream 1) or error (2).
func TaskOutput(ctx context.Context, stream uint32, data []byte) error {
	h, err := hostOf(ctx)
	if err != nil {
		return err
	}
	return h.TaskOutput(stream, data)
}

// TaskMark remembers bytes with what was output on a stream so far.
func TaskMark(ctx context.Context, stream uint32, mark []byte) error {
	h, err := hostOf(ctx)
	if err != nil {
		return err
	}
	return h.TaskMark(stream, mark)
}

// TaskMarked returns the encoded OutputMark of a stream.
func TaskMarked(ctx context.Context, stream uint32) ([]byte, error) {
	h, err := hostOf(ctx)
	if err != nil {
		return nil, err
	}
	return h.TaskMarked(stream)
}

// TaskDirs returns where the directories of the task are seen that the call is about.
func TaskDirs(ctx context.Context) (task, alloc string) {
	h, err := hostOf(ctx)
	if err != nil {
		return "", ""
	}
	return h.TaskDirs()
}

// WasmStart hands over an encoded WasmStartRequest and returns the encoded answer.
func WasmStart(ctx context.Context, request []byte) ([]byte, error) {
	h, err := hostOf(ctx)
	if err != nil {
		return nil, err
	}
	return h.WasmStart(request)
}

// ProcessStart hands over an encoded ProcessStartRequest and returns the encoded answer.
func ProcessStart(ctx context.Context, request []byte) ([]byte, error) {
	h, err := hostOf(ctx)
	if err != nil {
		return nil, err
	}
	return h.ProcessStart(request)
}

// ProcessSupport hands over an encoded ProcessSupportRequest and returns the encoded answer.
func ProcessSupport(ctx context.Context, request []byte) ([]byte, error) {
	h, err := hostOf(ctx)
	if err != nil {
		return nil, err
	}
	return h.ProcessSupport(request)
}

// ProcessRun hands over an encoded ProcessRunRequest and returns the encoded answer.
func ProcessRun(ctx context.Context, request []byte) ([]byte, error) {
	h, err := hostOf(ctx)
	if err != nil {
		return nil, err
	}
	return h.ProcessRun(request)
}

// KVGet hands over an encoded KvGetRequest and returns the encoded answer.
func KVGet(ctx context.Context, request []byte) ([]byte, error) {
	h, err := hostOf(ctx)
	if err != nil {
		return nil, err
	}
	return h.KVGet(request)
}

// KVSet hands over an encoded KvSetRequest and returns the encoded answer.
func KVSet(ctx context.Context, request []byte) ([]byte, error) {
	h, err := hostOf(ctx)
	if err != nil {
		return nil, err
	}
	return h.KVSet(request)
}

// KVDelete hands over an encoded KvDeleteRequest and returns the encoded answer.
func KVDelete(ctx context.Context, request []byte) ([]byte, error) {
	h, err := hostOf(ctx)
	if err != nil {
		return nil, err
	}
	return h.KVDelete(request)
}

// KVList hands over an encoded KvListRequest and returns the encoded answer.
func KVList(ctx context.Context, request []byte) ([]byte, error) {
	h, err := hostOf(ctx)
	if err != nil {
		return nil, err
	}
	return h.KVList(request)
}

// StreamRead reads from a stream.
func StreamRead(ctx context.Context, stream uint32, p []byte) (int, error) {
	h, err := hostOf(ctx)
	if err != nil {
		return 0, err
	}
	return h.StreamRead(stream, p)
}

// StreamWrite writes to a stream.
func StreamWrite(ctx context.Context, stream uint32, p []byte) (int, error) {
	h, err := hostOf(ctx)
	if err != nil {
		return 0, err
	}
	return h.StreamWrite(stream, p)
}

// StreamShutdown says that nothing more is written.
func StreamShutdown(ctx context.Context, stream uint32) error {
	h, err := hostOf(ctx)
	if err != nil {
		return err
	}
	return h.StreamShutdown(stream)
}

// StreamClose closes a stream.
func StreamClose(ctx context.Context, stream uint32) error {
	h, err := hostOf(ctx)
	if err != nil {
		return err
	}
	return h.StreamClose(stream)
}

// StreamBlocking decides whether reads and writes wait.
func StreamBlocking(ctx context.Context, stream uint32, on bool) error {
	h, err := hostOf(ctx)
	if err != nil {
		return err
	}
	return h.StreamBlocking(stream, on)
}

// StreamPoll hands over an encoded StreamPollRequest and returns the encoded answer.
func StreamPoll(ctx context.Context, request []byte) ([]byte, error) {
	h, err := hostOf(ctx)
	if err != nil {
		return nil, err
	}
	return h.StreamPoll(request)
}

// NetDial hands over an encoded NetDialRequest and returns the encoded answer.
func NetDial(ctx context.Context, request []byte) ([]byte, error) {
	h, err := hostOf(ctx)
	if err != nil {
		return nil, err
	}
	return h.NetDial(request)
}

// HTTPRequest hands over an encoded HttpRequest and returns the encoded answer.
func HTTPRequest(ctx context.Context, request []byte) ([]byte, error) {
	h, err := hostOf(ctx)
	if err != nil {
		return nil, err
	}
	return h.HTTPRequest(request)
}

// HTTPResponse returns an encoded HttpResponse.
func HTTPResponse(ctx context.Context, stream uint32) ([]byte, error) {
	h, err := hostOf(ctx)
	if err != nil {
		return nil, err
	}
	return h.HTTPResponse(stream)
}

// HTTPTrailers returns encoded HttpTrailers.
func HTTPTrailers(ctx context.Context, stream uint32) ([]byte, error) {
	h, err := hostOf(ctx)
	if err != nil {
		return nil, err
	}
	return h.HTTPTrailers(stream)
}

// ExecOpen returns encoded ExecStreams.
func ExecOpen(ctx context.Context) ([]byte, error) {
	h, err := hostOf(ctx)
	if err != nil {
		return nil, err
	}
	return h.ExecOpen()
}

// WorkloadSignal hands over an encoded WorkloadSignalRequest and returns the encoded answer.
func WorkloadSignal(ctx context.Context, request []byte) ([]byte, error) {
	return ofWorkload(ctx, abi.FuncWorkloadSignal, request)
}

// WorkloadStop hands over an encoded WorkloadStopRequest and returns the encoded answer.
func WorkloadStop(ctx context.Context, request []byte) ([]byte, error) {
	return ofWorkload(ctx, abi.FuncWorkloadStop, request)
}

// WorkloadWait hands over an encoded WorkloadWaitRequest and returns the encoded answer.
func WorkloadWait(ctx context.Context, request []byte) ([]byte, error) {
	return ofWorkload(ctx, abi.FuncWorkloadWait, request)
}

// WorkloadStats hands over an encoded WorkloadStatsRequest and returns the encoded answer.
func WorkloadStats(ctx context.Context, request []byte) ([]byte, error) {
	return ofWorkload(ctx, abi.FuncWorkloadStats, request)
}

// WorkloadInspect hands over an encoded WorkloadInspectRequest and returns the encoded answer.
func WorkloadInspect(ctx context.Context, request []byte) ([]byte, error) {
	return ofWorkload(ctx, abi.FuncWorkloadInspect, request)
}

// WorkloadExec hands over an encoded WorkloadExecRequest and returns the encoded answer.
func WorkloadExec(ctx context.Context, request []byte) ([]byte, error) {
	return ofWorkload(ctx, abi.FuncWorkloadExec, request)
}

func ofWorkload(ctx context.Context, function string, request []byte) ([]byte, error) {
	h, err := hostOf(ctx)
	if err != nil {
		return nil, err
	}
	return h.Workload(function, request)
}
