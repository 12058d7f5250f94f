// Package log writes structured, levelled lines into the node's log, under the
// plugin's name: the capability wasmnode:log/v1, which every plugin has.
//
//	log.Info(ctx, "image pulled", "image", name, "bytes", n)
//
// The host limits the rate and the length of lines and counts what it drops. It
// must never be needed for correctness: a line can be lost.
package log

import (
	"context"
	"strconv"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
)

// Trace writes a line at level trace. As in the other functions, pairs are keys and
// values by turns; a value without a key gets the key "EXTRA". Values are strings,
// bytes, truth values, the usual numbers, errors, and what has a String method; others
// are "!unprintable", because printing anything at all would take fmt.
func Trace(ctx context.Context, message string, pairs ...any) {
	write(ctx, wasmnodev1.LogLevel_LOG_LEVEL_TRACE, message, pairs)
}

// Debug writes a line at level debug.
func Debug(ctx context.Context, message string, pairs ...any) {
	write(ctx, wasmnodev1.LogLevel_LOG_LEVEL_DEBUG, message, pairs)
}

// Info writes a line at level info.
func Info(ctx context.Context, message string, pairs ...any) {
	write(ctx, wasmnodev1.LogLevel_LOG_LEVEL_INFO, message, pairs)
}

// Warn writes a line at level warn.
func Warn(ctx context.Context, message string, pairs ...any) {
	write(ctx, wasmnodev1.LogLevel_LOG_LEVEL_WARN, message, pairs)
}

// Error writes a line at level error.
func Error(ctx context.Context, message string, pairs ...any) {
	write(ctx, wasmnodev1.LogLevel_LOG_LEVEL_ERROR, message, pairs)
}

func write(ctx context.Context, level wasmnodev1.LogLevel, message string, pairs []any) {
	var encoded []byte
	if len(pairs) > 0 {
		// Encoding fails for no value of this type.
		encoded, _ = fields(pairs).MarshalVT()
	}
	hostcall.LogWrite(ctx, uint32(level), message, encoded)
}

func fields(pairs []any) *wasmnodev1.LogFields {
	list := make([]*wasmnodev1.LogField, 0, (len(pairs)+1)/2)
	for len(pairs) > 1 {
		list = append(list, &wasmnodev1.LogField{Key: text(pairs[0]), Value: text(pairs[1])})
		pairs = pairs[2:]
	}
	if len(pairs) == 1 {
		list = append(list, &wasmnodev1.LogField{Key: "EXTRA", Value: text(pairs[0])})
	}
	return &wasmnodev1.LogFields{Fields: list}
}

// text writes the usual types without reflection, and so without fmt.
func text(value any) string {
	switch v := value.(type) {
	case nil:
		return "<nil>"
	case string:
		return v
	case []byte:
		return string(v)
	case error:
		return v.Error()
	case interface{ String() string }: // durations and times among them
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	case int:
		return strconv.Itoa(v)
	case int32:
		return strconv.Itoa(int(v))
	case int64:
		return strconv.FormatInt(v, 10)
	case uint32:
		return strconv.FormatUint(uint64(v), 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	default:
		return "!unprintable"
	}
}
