//go:build !wasip1

package hostcall

import "context"

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
