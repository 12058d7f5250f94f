package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPluginIsMeasured(t *testing.T) {
	w := newWorkshop(t, "mock")
	r := w.run(t, "", "plugin", "bench", "-json", "-calls", "3", "-task", `run_for = "1h"`, "mock.wasm")
	require.Zero(t, r.code, r.stderr)
	var b benched
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &b))
	assert.Equal(t, "mock_driver", b.Name)
	assert.Positive(t, b.Loaded)
	assert.Greater(t, b.Compiled, b.Loaded)
	var operations []string
	for _, m := range b.Operations {
		operations = append(operations, m.Op)
		assert.Equal(t, 3, m.Calls, m.Op)
		assert.Positive(t, m.Memory, m.Op)
		assert.Positive(t, m.P50, m.Op)
		assert.GreaterOrEqual(t, m.P99, m.P50, m.Op)
		assert.Greater(t, m.Cold, m.P50, "%s: an instance is made first", m.Op)
	}
	assert.Equal(t, []string{
		"driver_describe", "driver_fingerprint", "driver_start_task", "driver_recover_task", "driver_inspect_task",
		"driver_task_stats", "driver_stop_task", "driver_destroy_task",
	}, operations)

	wants(t, w.run(t, "", "plugin", "bench", "-calls", "0", "mock.wasm"), 1, `-calls is 0: it is from 1 to 10000`)
	wants(t, w.run(t, "", "plugin", "bench", "-task", "run_fro = 1", "mock.wasm"), 1, `-task: config\.run_fro: unknown field, did you mean "run_for"\?`)
	wants(t, w.run(t, "", "plugin", "bench", "none.wasm"), 1, `open none\.wasm: no such file or directory`)
}

func TestATimeHasThreeDigits(t *testing.T) {
	for want, d := range map[string]time.Duration{"-": 0, "7ns": 7, "999ns": 999, "1.23µs": 1234, "249µs": 249_498, "1.2s": 1_203_999_999} {
		assert.Equal(t, want, short(d))
	}
}
