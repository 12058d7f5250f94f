package trial_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/trial"
)

// repeatable loads the broken driver such that its calls can be recorded and replayed.
func repeatable(t *testing.T) *trial.Trial {
	t.Helper()
	tried, err := trial.Open(t.Context(), guestbuild.Plugin(t, "trial/testdata/broken"), trial.Config{
		Logger: hclog.NewNullLogger(), CacheDir: codeCache, Repeatable: true,
		Limits: host.Limits{CallTimeout: time.Minute, DescribeTime: time.Minute, CPUPerMinute: time.Minute},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tried.Close()) })
	return tried
}

const patient = time.Minute

// recordStart records the start of a task with a secret in its environment.
func recordStart(t *testing.T, tried *trial.Trial, how string) string {
	t.Helper()
	require.NoError(t, tried.Configure(t.Context(), host.Grants{}, map[string]any{"how": how}))
	var text bytes.Buffer
	to, err := tried.NewRecorder(&text, nil)
	require.NoError(t, err)
	c, err := tried.Prepare(abi.OpDriverStartTask, []byte(`{"task": {"env": {"SECRET": "swordfish \"\\"}}}`), t.TempDir())
	require.NoError(t, err)
	r, err := tried.Record(t.Context(), c, to)
	require.NoError(t, err)
	require.NoError(t, r.Err)
	require.Equal(t, `here swordfish "\`, r.Events[0].Message, "capabilities are real")
	return text.String()
}

func read(t *testing.T, text string) *trial.Recording {
	t.Helper()
	r, err := trial.ReadRecording(strings.NewReader(text))
	require.NoError(t, err)
	return r
}

func replay(t *testing.T, tried *trial.Trial, text string) error {
	return tried.Replay(t.Context(), read(t, text), t.TempDir(), patient)
}

// TestARecordedLifeIsReplayedToTheByte has a clock and random numbers in the handle.
func TestARecordedLifeIsReplayedToTheByte(t *testing.T) {
	tried := repeatable(t)
	require.NoError(t, tried.Configure(t.Context(), host.Grants{}, nil))
	config, err := tried.TaskConfig(nil)
	require.NoError(t, err)
	var text bytes.Buffer
	to, err := tried.NewRecorder(&text, nil)
	require.NoError(t, err)
	var ops []string
	require.NoError(t, tried.RecordLife(t.Context(), to, t.TempDir(), config, patient, func(op string, r *trial.Result) {
		require.NoError(t, optional(r.Err))
		ops = append(ops, op)
	}))
	require.Equal(t, []string{
		abi.OpDriverFingerprint, abi.OpDriverStartTask, abi.OpDriverRecoverTask, abi.OpDriverInspectTask, abi.OpDriverTaskStats,
		abi.OpDriverStopTask, abi.OpDriverWaitTask, abi.OpDriverDestroyTask,
	}, ops)
	require.NoError(t, replay(t, tried, text.String()))
	again, err := tried.NewRecorder(&text, read(t, text.String()))
	require.NoError(t, err)
	c, err := tried.Prepare(abi.OpDriverFingerprint, []byte(`{}`), t.TempDir())
	require.NoError(t, err)
	_, err = tried.Record(t.Context(), c, again)
	require.NoError(t, err)
	require.Len(t, read(t, text.String()).Calls, len(ops)+1)
}

// optional is nil for what a driver leaves to the node.
func optional(err error) error {
	if abi.CodeOf(err) == abi.Unimplemented {
		return nil
	}
	return err
}

// TestAReplayTellsTheFirstDifference replays recordings of another plugin than there is.
func TestAReplayTellsTheFirstDifference(t *testing.T) {
	tried := repeatable(t)
	text := recordStart(t, tried, "")
	require.NoError(t, replay(t, tried, text))
	lines := strings.SplitAfter(text, "\n")
	require.Len(t, lines, 5)
	for _, c := range []struct {
		old, new string // in the recording
		want     string
		path     trial.PathDifference
	}{
		{`"message":"here `, `"message":"there `, "call 1, driver_start_task, use 1 of a capability (line 3): task/v1 event: the request differs", trial.PathDifference{
			Path: "message", Recorded: []byte(`"there masked-maske"`), Now: []byte(`"here masked-maske"`),
		}},
		{"task/v1 event", "kv/v1 set", "call 1, driver_start_task, use 1 of a capability (line 3): another capability is asked for", trial.PathDifference{}},
		{lines[2], "", "call 1, driver_start_task, use 1 of a capability (line 3): the plugin asks for more than was recorded", trial.PathDifference{}},
		{lines[2], lines[2] + lines[2], "call 1, driver_start_task, use 2 of a capability (line 4): the plugin does not ask for what it asked for", trial.PathDifference{}},
		{`{"end":{"answer":{"handle":{"version":1,`, `{"end":{"answer":{"handle":{"version":2,`, "", trial.PathDifference{}},
		{`"Stopped":false`, `"Stopped":true`, "call 1, driver_start_task (line 4): the answer differs", trial.PathDifference{
			Path: "handle.driver_state.Stopped", Recorded: []byte("true"), Now: []byte("false"),
		}},
		{lines[3], `{"end":{"error":{"code":"INTERNAL"}}}`, "call 1, driver_start_task (line 4): the call ends in another way", trial.PathDifference{}},
		{`"how":""`, `"how":"sticks"`, "", trial.PathDifference{}},
	} {
		err := replay(t, tried, strings.Replace(text, c.old, c.new, 1))
		if c.want == "" {
			require.NoError(t, err, "%s", c.new)
			continue
		}
		require.EqualError(t, err, c.want)
		var d *trial.Difference
		require.ErrorAs(t, err, &d)
		if c.path.Path != "" {
			assert.Equal(t, []trial.PathDifference{c.path}, d.Paths)
		}
	}
}

func TestWhatTheSchemaSaysIsASecretIsMasked(t *testing.T) {
	tried := repeatable(t)
	require.NoError(t, tried.Configure(t.Context(), host.Grants{}, map[string]any{"pin": "swordfish"}))
	var text bytes.Buffer
	to, err := tried.NewRecorder(&text, nil)
	require.NoError(t, err)
	c, err := tried.Prepare(abi.OpDriverStartTask, []byte(`{}`), t.TempDir())
	require.NoError(t, err)
	r, err := tried.Record(t.Context(), c, to)
	require.NoError(t, err)
	require.Equal(t, `here swordfish`, r.Events[0].Message)
	require.NotContains(t, text.String(), "swordfish")
	require.Contains(t, text.String(), `"pin":"masked-ma"`)
	require.Equal(t, []string{"pin"}, read(t, text.String()).Secrets)
	require.NoError(t, replay(t, tried, text.String()))
}

func TestWhatARecordedCallWasAnsweredItIsAnsweredAgain(t *testing.T) {
	tried := repeatable(t)
	text := recordStart(t, tried, "")
	require.NotContains(t, text, "swordfish")
	_, rest, _ := strings.Cut(text, `{"use":`)
	use, _, _ := strings.Cut(rest, "\n")
	refused := strings.Replace(text, use, strings.Replace(use, `"request"`, `"error":{"code":"ABORTED","message":"not today"},"request"`, 1), 1)
	require.EqualError(t, replay(t, tried, refused), "call 1, driver_start_task (line 4): the call ends in another way")

	late := strings.Replace(text, `"after_ns"`, `"ended":true,"after_ns"`, 1)
	late = late[:strings.Index(late, `{"end"`)] + `{"end":{"fault":"was too slow"}}`
	require.NoError(t, replay(t, tried, late), "the call ended in the capability, and does again")

	require.NoError(t, tried.ConfigurePlayed(host.FSGrant{}, nil))
	c, err := tried.Prepare(abi.OpDriverStartTask, []byte(`{"task": {"env": {"SECRET": "masked-maske"}}}`), t.TempDir())
	require.NoError(t, err)
	r := tried.CallRecorded(t.Context(), c, read(t, refused))
	require.EqualError(t, r.Err, "the recording has no answer to this", "it slept for longer")
	require.Empty(t, r.Events, "nothing is real")
}

func TestASweepFailsEachUseAndAsksAgain(t *testing.T) {
	tried := repeatable(t)
	for how, want := range map[string]string{
		"":           "error UNAVAILABLE: this use fails, to see what the plugin does then []",
		"careless":   "success  []",
		"capability": "fault plugin broken trapped in driver_start_task: wasm error: unreachable: panic: this use fails, to see what the plugin does then []",
		"sticks":     "error UNAVAILABLE: this use fails, to see what the plugin does then [it answers INTERNAL: it is stuck]",
	} {
		text := recordStart(t, tried, how)
		var got []*trial.SweptFault
		require.NoError(t, tried.Sweep(t.Context(), read(t, text), t.TempDir(), patient, func(f *trial.SweptFault) { got = append(got, f) }))
		require.Len(t, got, 3, "one use, three ways")
		f := got[0]
		assert.Equal(t, want, fmt.Sprintf("%s %s [%s]", f.Ending, f.Text, f.Retry), how)
		assert.Equal(t, how == "careless", f.Same, how)
		assert.Equal(t, how == "capability" || how == "sticks", f.Bad(), how)
		assert.Equal(t, []any{1, "task/v1 event", "UNAVAILABLE"}, []any{f.Use, f.Capability, f.Failure})
		assert.Equal(t, "PERMISSION_DENIED", got[1].Failure)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, tried.Sweep(ctx, read(t, recordStart(t, tried, "")), t.TempDir(), patient, nil))
}

// TestTheClockOfAReplayStandsStill is also the reason why a plugin that waits for it comes to an
// end.
func TestTheClockOfAReplayStandsStill(t *testing.T) {
	look, sleep := trial.Clock()
	require.Zero(t, look())
	require.Zero(t, sleep(time.Hour), "nobody waits")
	require.Equal(t, time.Hour, look())
	for range 10_000 {
		look()
	}
	require.Greater(t, look(), time.Hour)
}
