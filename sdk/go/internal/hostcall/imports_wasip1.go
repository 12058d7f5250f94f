package hostcall

import (
	"context"
	"unsafe"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

//go:wasmimport wasmnode:abi/v1 input
func abiInput(ptr unsafe.Pointer)

//go:wasmimport wasmnode:abi/v1 output
func abiOutput(ptr unsafe.Pointer, length uint32)

//go:wasmimport wasmnode:abi/v1 result
func abiResult(ptr unsafe.Pointer)

//go:wasmimport wasmnode:log/v1 write
func logWrite(level uint32, message unsafe.Pointer, messageLen uint32, fields unsafe.Pointer, fieldsLen uint32)

//go:wasmimport wasmnode:task/v1 event
func taskEvent(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:task/v1 refresh
func taskRefresh()

//go:wasmimport wasmnode:task/v1 output
func taskOutput(stream uint32, ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:task/v1 mark
func taskMark(stream uint32, ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:task/v1 marked
func taskMarked(stream uint32) uint64

//go:wasmimport wasmnode:wasm/v1 start
func wasmStart(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:process/v1 start
func processStart(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:process/v1 support
func processSupport(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:process/v1 run
func processRun(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:kv/v1 get
func kvGet(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:kv/v1 set
func kvSet(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:kv/v1 delete
func kvDelete(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:kv/v1 list
func kvList(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:stream/v1 read
func streamRead(stream uint32, ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:stream/v1 write
func streamWrite(stream uint32, ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:stream/v1 shutdown
func streamShutdown(stream uint32) uint64

//go:wasmimport wasmnode:stream/v1 close
func streamClose(stream uint32) uint64

//go:wasmimport wasmnode:stream/v1 blocking
func streamBlocking(stream, on uint32) uint64

//go:wasmimport wasmnode:stream/v1 poll
func streamPoll(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:net/v1 dial
func netDial(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:http/v1 request
func httpRequest(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:http/v1 response
func httpResponse(stream uint32) uint64

//go:wasmimport wasmnode:http/v1 trailers
func httpTrailers(stream uint32) uint64

//go:wasmimport wasmnode:workload/v1 signal
func workloadSignal(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:workload/v1 stop
func workloadStop(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:workload/v1 wait
func workloadWait(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:workload/v1 stats
func workloadStats(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:workload/v1 inspect
func workloadInspect(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:workload/v1 exec
func workloadExec(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:exec/v1 open
func execOpen() uint64

func pointer(b []byte) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b))
}

// Input returns the input of the current call, which is length bytes long.
func Input(length uint32) []byte {
	in := make([]byte, length)
	ptr, _ := pointer(in)
	abiInput(ptr)
	return in
}

// Output hands over the answer of the current call.
func Output(answer []byte) { abiOutput(pointer(answer)) }

// answer fetches what a capability staged: its result, or its error.
func answer(status uint64) ([]byte, error) {
	code, length := abi.SplitStatus(status)
	var staged []byte
	if length > 0 {
		staged = make([]byte, length)
		ptr, _ := pointer(staged)
		abiResult(ptr)
	}
	if code == 0 {
		return staged, nil
	}
	var message wasmnodev1.Error
	if err := message.UnmarshalVT(staged); err != nil || message.Code == 0 {
		message.Code = abi.Code(code)
	}
	return nil, abi.FromProto(&message)
}

// LogWrite writes one log line; fields is an encoded LogFields.
func LogWrite(_ context.Context, level uint32, message string, fields []byte) {
	ptr, length := pointer(fields)
	logWrite(level, unsafe.Pointer(unsafe.StringData(message)), uint32(len(message)), ptr, length)
}

// TaskEvent hands over an encoded TaskEvent.
func TaskEvent(_ context.Context, event []byte) error {
	_, err := answer(taskEvent(pointer(event)))
	return err
}

// TaskRefresh asks for an early fingerprint.
func TaskRefresh(context.Context) { taskRefresh() }

// TaskOutput appends to the task's standard output (stream 1) or error (2).
func TaskOutput(_ context.Context, stream uint32, data []byte) error {
	ptr, length := pointer(data)
	_, err := answer(taskOutput(stream, ptr, length))
	return err
}

// TaskMark remembers bytes with what was output on a stream so far.
func TaskMark(_ context.Context, stream uint32, mark []byte) error {
	ptr, length := pointer(mark)
	_, err := answer(taskMark(stream, ptr, length))
	return err
}

// TaskMarked returns the encoded OutputMark of a stream.
func TaskMarked(_ context.Context, stream uint32) ([]byte, error) {
	return answer(taskMarked(stream))
}

// TaskDirs returns where the directories of the task are seen that the call is about.
func TaskDirs(context.Context) (task, alloc string) { return abi.TaskDir, abi.TaskAllocDir }

// WasmStart hands over an encoded WasmStartRequest and returns the encoded answer.
func WasmStart(_ context.Context, request []byte) ([]byte, error) {
	return answer(wasmStart(pointer(request)))
}

// ProcessStart hands over an encoded ProcessStartRequest and returns the encoded answer.
func ProcessStart(_ context.Context, request []byte) ([]byte, error) {
	return answer(processStart(pointer(request)))
}

// ProcessSupport hands over an encoded ProcessSupportRequest and returns the encoded answer.
func ProcessSupport(_ context.Context, request []byte) ([]byte, error) {
	return answer(processSupport(pointer(request)))
}

// ProcessRun hands over an encoded ProcessRunRequest and returns the encoded answer.
func ProcessRun(_ context.Context, request []byte) ([]byte, error) {
	return answer(processRun(pointer(request)))
}

// KVGet hands over an encoded KvGetRequest and returns the encoded answer.
func KVGet(_ context.Context, request []byte) ([]byte, error) {
	return answer(kvGet(pointer(request)))
}

// KVSet hands over an encoded KvSetRequest and returns the encoded answer.
func KVSet(_ context.Context, request []byte) ([]byte, error) {
	return answer(kvSet(pointer(request)))
}

// KVDelete hands over an encoded KvDeleteRequest and returns the encoded answer.
func KVDelete(_ context.Context, request []byte) ([]byte, error) {
	return answer(kvDelete(pointer(request)))
}

// KVList hands over an encoded KvListRequest and returns the encoded answer.
func KVList(_ context.Context, request []byte) ([]byte, error) {
	return answer(kvList(pointer(request)))
}

// moved is how many bytes a read or write moved. An error without a message is one that would
// have had to wait.
func moved(status uint64) (int, error) {
	code, n := abi.SplitStatus(status)
	switch {
	case code == 0:
		return int(n), nil
	case n == 0:
		return 0, ErrWouldBlock
	}
	_, err := answer(status)
	return 0, err
}

// StreamRead reads from a stream.
func StreamRead(_ context.Context, stream uint32, p []byte) (int, error) {
	ptr, length := pointer(p)
	return moved(streamRead(stream, ptr, length))
}

// StreamWrite writes to a stream.
func StreamWrite(_ context.Context, stream uint32, p []byte) (int, error) {
	ptr, length := pointer(p)
	return moved(streamWrite(stream, ptr, length))
}

// StreamShutdown says that nothing more is written.
func StreamShutdown(_ context.Context, stream uint32) error {
	_, err := answer(streamShutdown(stream))
	return err
}

// StreamClose closes a stream.
func StreamClose(_ context.Context, stream uint32) error {
	_, err := answer(streamClose(stream))
	return err
}

// StreamBlocking decides whether reads and writes wait.
func StreamBlocking(_ context.Context, stream uint32, on bool) error {
	var argument uint32
	if on {
		argument = 1
	}
	_, err := answer(streamBlocking(stream, argument))
	return err
}

// StreamPoll hands over an encoded StreamPollRequest and returns the encoded answer.
func StreamPoll(_ context.Context, request []byte) ([]byte, error) {
	return answer(streamPoll(pointer(request)))
}

// NetDial hands over an encoded NetDialRequest and returns the encoded answer.
func NetDial(_ context.Context, request []byte) ([]byte, error) {
	return answer(netDial(pointer(request)))
}

// HTTPRequest hands over an encoded HttpRequest and returns the encoded answer.
func HTTPRequest(_ context.Context, request []byte) ([]byte, error) {
	return answer(httpRequest(pointer(request)))
}

// HTTPResponse returns an encoded HttpResponse.
func HTTPResponse(_ context.Context, stream uint32) ([]byte, error) {
	return answer(httpResponse(stream))
}

// HTTPTrailers returns encoded HttpTrailers.
func HTTPTrailers(_ context.Context, stream uint32) ([]byte, error) {
	return answer(httpTrailers(stream))
}

// ExecOpen returns encoded ExecStreams.
func ExecOpen(context.Context) ([]byte, error) { return answer(execOpen()) }

// WorkloadSignal hands over an encoded WorkloadSignalRequest and returns the encoded answer.
func WorkloadSignal(_ context.Context, request []byte) ([]byte, error) {
	return answer(workloadSignal(pointer(request)))
}

// WorkloadStop hands over an encoded WorkloadStopRequest and returns the encoded answer.
func WorkloadStop(_ context.Context, request []byte) ([]byte, error) {
	return answer(workloadStop(pointer(request)))
}

// WorkloadWait hands over an encoded WorkloadWaitRequest and returns the encoded answer.
func WorkloadWait(_ context.Context, request []byte) ([]byte, error) {
	return answer(workloadWait(pointer(request)))
}

// WorkloadStats hands over an encoded WorkloadStatsRequest and returns the encoded answer.
func WorkloadStats(_ context.Context, request []byte) ([]byte, error) {
	return answer(workloadStats(pointer(request)))
}

// WorkloadInspect hands over an encoded WorkloadInspectRequest and returns the encoded answer.
func WorkloadInspect(_ context.Context, request []byte) ([]byte, error) {
	return answer(workloadInspect(pointer(request)))
}

// WorkloadExec hands over an encoded WorkloadExecRequest and returns the encoded answer.
func WorkloadExec(_ context.Context, request []byte) ([]byte, error) {
	return answer(workloadExec(pointer(request)))
}
