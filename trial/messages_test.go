package trial_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/trial"
)

func TestBytesOfARequestMayBeWrittenAsAnObject(t *testing.T) {
	for _, text := range []string{
		`{"task": {"id": "a", "driver_config": {"x": [1, {}]}, "env": {"A": "{}"}}}`,
		`{"task": {"id": "a", "driverConfig": "eyJ4IjogWzEsIHt9XX0=", "env": {"A": "{}"}}}`,
	} {
		wire, err := trial.Encode(abi.OpDriverStartTask, []byte(text))
		require.NoError(t, err)
		var m wasmnodev1.DriverStartTaskRequest
		require.NoError(t, m.UnmarshalVT(wire))
		assert.Equal(t, `{"x": [1, {}]}`, string(m.Task.DriverConfig))
		assert.Equal(t, map[string]string{"A": "{}"}, m.Task.Env)
	}
}

func TestAnAnswerCanBeAskedWith(t *testing.T) {
	for _, state := range []string{`{"a":1.50,"b":"é"}`, "\x00\x01", "[]", "", "{"} {
		handle := &wasmnodev1.TaskHandle{Version: 2, DriverState: []byte(state), WorkloadId: "w"}
		wire, err := (&wasmnodev1.DriverStartTaskResponse{Handle: handle}).MarshalVT()
		require.NoError(t, err)
		text, err := trial.Decode(abi.OpDriverStartTask, wire)
		require.NoError(t, err)
		wire, err = trial.Encode(abi.OpDriverStopTask, text)
		require.NoError(t, err, "%s", text)
		var m wasmnodev1.DriverStopTaskRequest
		require.NoError(t, m.UnmarshalVT(wire))
		assert.Equal(t, state, string(m.Handle.DriverState))
		assert.Equal(t, handle.Version, m.Handle.Version)
	}
}

func TestAFaultOfARequestHasItsPosition(t *testing.T) {
	for text, want := range map[string]string{
		"":                                `1:1: unexpected end of JSON input`,
		"[]":                              `1:1: a message is a JSON object, such as {}`,
		"null":                            `1:1: a message is a JSON object, such as {}`,
		"{\n  \"task\" {}}":               `2:10: invalid character '{' after object key`,
		"{} {}":                           `1:4: invalid character '{' after top-level value`,
		"{\"task\":\n  {\"driver\": {}}}": `2:4: unknown field "driver"`,
		"{\"task\": {\"driver_config\": {}, \"user\": 7}}":                      `1:40: invalid value for string field user: 7`,
		"{\"task\": {\"driver_config\": {\n\"a\": {}},\n \"env\": {\"A\": 1}}}": `3:15: invalid value for string field value: 1`,
		`{"task": {"driver_config": "ä"}}`:                                      `1:28: invalid value for bytes field driverConfig: "ä"`,
	} {
		_, err := trial.Encode(abi.OpDriverStartTask, []byte(text))
		require.EqualError(t, err, want, text)
		var at *trial.PositionError
		require.ErrorAs(t, err, &at)
	}
}

func FuzzEncode(f *testing.F) {
	f.Add([]byte(`{"task": {"driver_config": {"x": [1, {}]}, "env": {"A": "{}"}}}`))
	f.Add([]byte("{\"task\":\n  {\"driver\": {}}}"))
	f.Add([]byte(`{"task": {"driver_config": {}, "driverConfig": {}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		wire, err := trial.Encode(abi.OpDriverStartTask, text)
		if err != nil {
			return
		}
		require.True(t, json.Valid(text))
		var m wasmnodev1.DriverStartTaskRequest
		require.NoError(t, m.UnmarshalVT(wire))
	})
}
