package trial_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sdk/go/conform"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/trial"
)

// live is a node's host with the broken driver, as an agent has it.
type live struct {
	*host.Host
	plugin *host.Plugin
}

func newLive(t *testing.T) *live {
	t.Helper()
	engine, err := sandbox.Open(sandbox.Config{CacheDir: codeCache})
	require.NoError(t, err)
	l := &live{Host: host.New(host.Config{
		Logger: hclog.NewNullLogger(), Engine: engine, Workloads: repeatable(t).Workloads(),
		Limits: host.Limits{CallTimeout: patient, DescribeTime: patient, CPUPerMinute: patient},
	})}
	l.plugin = l.load(t, guestbuild.Plugin(t, "trial/testdata/broken"))
	t.Cleanup(func() { require.NoError(t, engine.Close(context.WithoutCancel(t.Context()))) })
	return l
}

// load loads a file and configures it, as a node does, such that it has instances that are warm.
func (l *live) load(t *testing.T, wasm []byte) *host.Plugin {
	t.Helper()
	p, err := l.Load(t.Context(), host.NewSource(wasm))
	require.NoError(t, err)
	t.Cleanup(p.Close)
	require.NoError(t, p.Configure(t.Context(), host.Grants{}, []byte(`{"how":"","password":"swordfish"}`)))
	_, err = p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	return p
}

func (l *live) record(t *testing.T, bounds trial.LiveBounds) *trial.Live {
	t.Helper()
	r, err := trial.RecordLive(l.Host, "broken", bounds)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// start starts a task, and returns it with its handle.
func (l *live) start(t *testing.T, n int64) (*wasmnodev1.TaskConfig, *wasmnodev1.TaskHandle) {
	t.Helper()
	return l.startWith(t, n, map[string]string{"SECRET": fmt.Sprintf("swordfish-%d", n), "A": "another", "B": "and another"})
}

// secrets are so many variables.
func secrets(n int) map[string]string {
	env := map[string]string{}
	for i := range n {
		env[fmt.Sprintf("SECRET_%d", i)] = fmt.Sprintf("swordfish-%d", i)
	}
	return env
}

func (l *live) startWith(t *testing.T, n int64, env map[string]string) (*wasmnodev1.TaskConfig, *wasmnodev1.TaskHandle) {
	t.Helper()
	task, err := conform.Task(t.TempDir(), n, []byte(`{"message":"here"}`))
	if !assert.NoError(t, err) {
		return nil, nil
	}
	task.Env = env
	var started wasmnodev1.DriverStartTaskResponse
	assert.NoError(t, l.plugin.Invoke(t.Context(), host.Call{
		Op: abi.OpDriverStartTask, Task: task, Request: &wasmnodev1.DriverStartTaskRequest{Task: task}, Answer: &started,
		Events: func(*wasmnodev1.TaskEvent) error { return nil },
	}))
	return task, started.Handle
}

var wide = trial.LiveBounds{Time: patient, Bytes: 1 << 20}

// recording reads so many calls.
func recording(t *testing.T, r *trial.Live, calls int) string {
	t.Helper()
	var text strings.Builder
	for i := range calls {
		part, lost, err := r.Wait(t.Context())
		require.NoError(t, err)
		require.Zero(t, lost)
		require.Empty(t, part.End)
		if i == 0 {
			text.WriteString(part.Header)
		}
		text.WriteString(part.Text)
	}
	return text.String()
}

func TestWhatANodesPluginReadsIsReplayed(t *testing.T) {
	l := newLive(t)
	require.NoError(t, l.plugin.Configure(t.Context(), host.Grants{}, []byte(`{"how":"reads"}`)))
	r := l.record(t, wide)
	task, err := conform.Task(t.TempDir(), 1, []byte(`{"message":"here"}`))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(task.Directories.Task, "local", "app.conf"), []byte("port = 80"), 0o600))
	var said string
	require.NoError(t, l.plugin.Invoke(t.Context(), host.Call{
		Op: abi.OpDriverStartTask, Task: task, Request: &wasmnodev1.DriverStartTaskRequest{Task: task}, Answer: &wasmnodev1.DriverStartTaskResponse{},
		Events: func(e *wasmnodev1.TaskEvent) error { said = e.Message; return nil },
	}))
	require.Equal(t, "here port = 80", said)
	part, _, err := r.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"/task/local/app.conf"}, part.Files)
	require.Equal(t, 1, part.Uses, "of capabilities")
	require.NoError(t, replay(t, repeatable(t), part.Header+part.Text))
}

// TestCallsOfANodeAreReplayedToTheByte has a clock and random numbers in handles, of tasks that are
// started at the same time by an instance that had calls before.
func TestCallsOfANodeAreReplayedToTheByte(t *testing.T) {
	l := newLive(t)
	_, before := l.start(t, 1)
	require.NotEmpty(t, before.DriverState)
	r := l.record(t, wide)
	_, err := trial.RecordLive(l.Host, "broken", wide)
	require.ErrorIs(t, err, host.ErrRecording)
	trace, stop := l.Trace("broken")
	defer stop()
	const tasks = 8
	var wait sync.WaitGroup
	for n := range int64(tasks) {
		wait.Go(func() {
			task, h := l.start(t, n+2)
			assert.NoError(t, l.plugin.Invoke(t.Context(), host.Call{
				Op: abi.OpDriverInspectTask, Task: task, Answer: &wasmnodev1.DriverInspectTaskResponse{},
				Request: &wasmnodev1.DriverInspectTaskRequest{TaskId: task.Id, Handle: h},
			}))
		})
	}
	wait.Wait()
	text := recording(t, r, 2*tasks)
	require.NotContains(t, text, "swordfish")
	require.Contains(t, text, `"password":"masked-ma"`)
	require.NoError(t, replay(t, repeatable(t), text))
	traced, _, err := trace.Read()
	require.NoError(t, err)
	require.NotEmpty(t, traced.Operation, "a trace goes on beside it")

	r.Close()
	l.start(t, 100)
	_, _, err = r.Read()
	require.Error(t, err, "what begins afterwards is not recorded")
	l.record(t, wide) // and another recording is possible
}

// TestWhatANodeMasksInAnErrorAReplayMasksToo has tokens in what the plugin answers, also one that
// the bound of an error's text cuts.
func TestWhatANodeMasksInAnErrorAReplayMasksToo(t *testing.T) {
	const token = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJtZSJ9.c2lnbmF0dXJl"
	l := newLive(t)
	task, h := l.start(t, 1)
	r := l.record(t, wide)
	signals := []string{token, strings.Repeat("long ", 800) + strings.Repeat("x", 76) + token, "swordfish-1"}
	for _, signal := range signals {
		err := l.plugin.Invoke(t.Context(), host.Call{
			Op: abi.OpDriverSignalTask, Task: task, Answer: &wasmnodev1.DriverSignalTaskResponse{},
			Request: &wasmnodev1.DriverSignalTaskRequest{TaskId: task.Id, Handle: h, Signal: signal},
		})
		require.NotContains(t, err.Error(), "eyJ")
		require.NotContains(t, err.Error(), "sword")
	}
	require.NoError(t, replay(t, repeatable(t), recording(t, r, len(signals))))
}

// TestWhatTheNodeGaveUpIsReplayedAsThat ends a command that waits for more input, and one that does
// not ask for anything. Only in a use of a capability can a replay give a call up: the first is
// tried again when the end comes while the plugin computes.
func TestWhatTheNodeGaveUpIsReplayedAsThat(t *testing.T) {
	l := newLive(t)
	task, h := l.start(t, 1)
	r := l.record(t, wide)
	giveUp := func() (trial.LivePart, error) {
		ctx, cancel := context.WithCancel(t.Context())
		in, more := io.Pipe()
		go func() { _, _ = more.Write([]byte("some")) }()
		require.ErrorIs(t, l.plugin.Invoke(ctx, host.Call{
			Op: abi.OpDriverExecTask, Task: task, Answer: &wasmnodev1.DriverExecTaskResponse{},
			Request: &wasmnodev1.DriverExecTaskRequest{TaskId: task.Id, Handle: h, Command: []string{"cat"}},
			Streams: func() host.CommandStreams {
				return host.CommandStreams{Stdin: in, Stdout: leaving{nowhere{}, cancel}, Stderr: nowhere{}}
			},
		}), context.Canceled)
		part, _, err := r.Read()
		return part, err
	}
	part, err := giveUp()
	for began := time.Now(); err != nil; part, err = giveUp() {
		require.Less(t, time.Since(began), patient)
	}
	text := part.Header + part.Text
	require.Contains(t, text, `"fault":"was not finished"`)
	require.NoError(t, replay(t, repeatable(t), text))

	require.NoError(t, l.plugin.Configure(t.Context(), host.Grants{}, []byte(`{"how":"loop"}`)))
	ctx, cancel := context.WithCancel(t.Context())
	made := l.plugin.Stats().Instances
	go func() {
		defer cancel()
		assert.Eventually(t, func() bool { return l.plugin.Stats().Instances > made }, patient, time.Millisecond)
	}()
	err = l.plugin.Invoke(ctx, host.Call{
		Op: abi.OpDriverInspectTask, Task: task, Answer: &wasmnodev1.DriverInspectTaskResponse{},
		Request: &wasmnodev1.DriverInspectTaskRequest{TaskId: task.Id, Handle: h},
	})
	require.ErrorIs(t, err, context.Canceled)
	_, err = l.plugin.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	part, _, err = r.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{abi.OpDriverFingerprint, 1}, []any{part.Operation, part.LeftOut})
}

func TestALiveRecordingEndsAtItsBounds(t *testing.T) {
	l := newLive(t)
	fingerprint := func() {
		_, err := l.plugin.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
		require.NoError(t, err)
	}
	ends := func(r *trial.Live, want string) {
		t.Helper()
		part, _, err := r.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, part.End)
		_, _, err = r.Wait(t.Context())
		require.ErrorIs(t, err, io.EOF)
		r.Close()
	}
	r := l.record(t, wide)
	fingerprint()
	one := len(recording(t, r, 1))
	r.Close()

	r = l.record(t, trial.LiveBounds{Time: patient, Bytes: one + 50})
	fingerprint()
	fingerprint()
	recording(t, r, 1)
	ends(r, fmt.Sprintf("another call would make it larger than %d bytes", one+50))

	r = l.record(t, trial.LiveBounds{Time: time.Millisecond, Bytes: 1})
	ends(r, "it has taken 1ms")

	r = l.record(t, wide)
	fingerprint()
	l.plugin = l.load(t, append(guestbuild.Plugin(t, "trial/testdata/broken"), "\x00\x02\x01x"...))
	recording(t, r, 1)
	ends(r, "the plugin is another file now, of version 0.1.0")

	r = l.record(t, wide)
	l.startWith(t, 1, secrets(1025))
	fingerprint()
	ends(r, "there are more secrets than are masked: 1024, of 1048576 bytes together")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r = l.record(t, wide)
	_, _, err := r.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, err = trial.RecordLive(l.Host, "none", wide)
	require.ErrorIs(t, err, host.ErrNoPlugin)
}

// TestACallThatExchangesTooMuchIsLeftOut has a command that is fed 40 MiB.
func TestACallThatExchangesTooMuchIsLeftOut(t *testing.T) {
	l := newLive(t)
	task, h := l.start(t, 1)
	r := l.record(t, wide)
	require.NoError(t, l.plugin.Invoke(t.Context(), host.Call{
		Op: abi.OpDriverExecTask, Task: task, Answer: &wasmnodev1.DriverExecTaskResponse{},
		Request: &wasmnodev1.DriverExecTaskRequest{TaskId: task.Id, Handle: h, Command: []string{"cat"}},
		Streams: func() host.CommandStreams {
			return host.CommandStreams{Stdin: io.NopCloser(io.LimitReader(zeros{}, 40<<20)), Stdout: nowhere{}, Stderr: nowhere{}}
		},
	}))
	_, err := l.plugin.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	part, _, err := r.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{abi.OpDriverFingerprint, 1}, []any{part.Operation, part.LeftOut})
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Close() error                { return nil }

// leaving is the output of somebody who leaves once there is some.
type leaving struct {
	io.WriteCloser
	leave func()
}

func (l leaving) Write(p []byte) (int, error) {
	l.leave()
	return l.WriteCloser.Write(p)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
