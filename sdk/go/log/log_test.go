package log_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
	"github.com/wasmnode/wasmnode/sdk/go/log"
)

type host struct {
	hostcall.Host
	level   wasmnodev1.LogLevel
	message string
	fields  wasmnodev1.LogFields
}

func (h *host) LogWrite(level uint32, message string, fields []byte) {
	h.level, h.message = wasmnodev1.LogLevel(level), message
	if err := h.fields.UnmarshalVT(fields); err != nil {
		panic(err)
	}
}

func TestValuesAreWrittenAsText(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{"text", "text"}, {[]byte("bytes"), "bytes"}, {errors.New("wrong"), "wrong"}, {true, "true"}, {nil, "<nil>"},
		{-1, "-1"}, {int32(2), "2"}, {int64(3), "3"}, {uint32(4), "4"}, {uint64(5), "5"}, {1.5, "1.5"},
		{90 * time.Second, "1m30s"}, {struct{}{}, "!unprintable"},
	} {
		h := new(host)
		log.Info(hostcall.WithHost(context.Background(), h), "line", "key", c.value)
		expect.Equal(t, len(h.fields.Fields), 1)
		expect.Equal(t, h.fields.Fields[0].Key, "key")
		expect.Equal(t, h.fields.Fields[0].Value, c.want)
	}
}

func TestAValueWithoutAKeyIsNotLost(t *testing.T) {
	h := new(host)
	log.Error(hostcall.WithHost(context.Background(), h), "line", "a", 1, "lonely")
	expect.Equal(t, h.fields.Fields[1].Key, "EXTRA")
	expect.Equal(t, h.fields.Fields[1].Value, "lonely")
}

func TestEachLevelHasItsFunction(t *testing.T) {
	for level, write := range map[wasmnodev1.LogLevel]func(context.Context, string, ...any){
		wasmnodev1.LogLevel_LOG_LEVEL_TRACE: log.Trace, wasmnodev1.LogLevel_LOG_LEVEL_DEBUG: log.Debug,
		wasmnodev1.LogLevel_LOG_LEVEL_INFO: log.Info, wasmnodev1.LogLevel_LOG_LEVEL_WARN: log.Warn,
		wasmnodev1.LogLevel_LOG_LEVEL_ERROR: log.Error,
	} {
		h := new(host)
		write(hostcall.WithHost(context.Background(), h), "line")
		expect.Equal(t, h.level, level)
		expect.Equal(t, h.message, "line")
		write(context.Background(), "without a host nothing happens")
	}
}
