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

//go:wasmimport wasmnode:wasm/v1 start
func wasmStart(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:process/v1 start
func processStart(ptr unsafe.Pointer, length uint32) uint64

//go:wasmimport wasmnode:process/v1 support
func processSupport(ptr unsafe.Pointer, length uint32) uint64

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
