package host_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/host/stream"
	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/workload"
)

// commandEnds are the other ends of a command's streams.
type commandEnds struct {
	keys           *io.PipeWriter
	stdout, stderr *io.PipeReader
	sizes          chan workload.Size
}

// startCommand has a plugin run a command of some arguments on a terminal.
func startCommand(ctx context.Context, t *testing.T, p *host.Plugin, arguments ...string) (commandEnds, <-chan error, *wasmnodev1.DriverExecTaskResponse) {
	t.Helper()
	stdin, keys := io.Pipe()
	stdout, toStdout := io.Pipe()
	stderr, toStderr := io.Pipe()
	ends := commandEnds{keys, stdout, stderr, make(chan workload.Size)}
	answer, ended := &wasmnodev1.DriverExecTaskResponse{}, make(chan error, 1)
	request := &wasmnodev1.DriverExecTaskRequest{
		TaskId: "t", Handle: &wasmnodev1.TaskHandle{Version: 1}, Command: arguments, Tty: true, Size: &wasmnodev1.TerminalSize{Rows: 24, Columns: 80},
	}
	scope := taskScope(t)
	go func() {
		err := p.Invoke(ctx, host.Call{Op: abi.OpDriverExecTask, Task: scope.Config, Request: request, Answer: answer, Streams: func() host.CommandStreams {
			return host.CommandStreams{Stdin: stdin, Stdout: toStdout, Stderr: toStderr, Sizes: ends.sizes}
		}})
		_ = stdin.Close()
		_ = toStdout.Close()
		_ = toStderr.Close()
		ended <- err
	}()
	return ends, ended, answer
}

func TestACommandOfAGuestInGoHasStreams(t *testing.T) {
	p := newWorld(t, host.Limits{CallTimeout: time.Millisecond}).ready(t, guestbuild.Plugin(t, "host/testdata/exec"), host.Grants{})
	for range 2 { // the second in the instance of the first
		ends, ended, answer := startCommand(t.Context(), t, p, "a", "b", "c")
		read := func(r io.Reader, want string) {
			t.Helper()
			buf := make([]byte, len(want))
			_, err := io.ReadFull(r, buf)
			require.NoError(t, err)
			require.Equal(t, want, string(buf))
		}
		read(ends.stderr, "size 24 80\n")
		ends.sizes <- workload.Size{Rows: 300, Columns: 65535}
		read(ends.stderr, "size 300 65535\n")
		input := strings.Repeat("0123456789abcdef", 16<<10)
		go func() { _, _ = io.WriteString(ends.keys, input); _ = ends.keys.Close() }()
		text, err := io.ReadAll(ends.stdout)
		require.NoError(t, err)
		require.True(t, string(text) == input, "%d bytes", len(text))
		require.NoError(t, <-ended)
		require.Equal(t, int32(3), answer.Result.GetExitCode())
	}
	require.EqualValues(t, 2, p.Stats().Opened[abi.ModuleExec])
	require.Zero(t, p.Stats().Streams)
	require.EqualValues(t, 1, p.Stats().AtRest)
}

// A plugin says by its imports whether it takes streams: the SDK adds none by itself.
func TestOnlyAPluginThatOpensStreamsImportsThem(t *testing.T) {
	for path, takes := range map[string]bool{"host/testdata/exec": true, "host/testdata/files": false} {
		spec, err := host.Inspect(guestbuild.Plugin(t, path), host.DefaultLimits().FileBytes)
		require.NoError(t, err)
		if takes {
			require.Contains(t, spec.Capabilities, abi.ModuleExec)
		} else {
			require.NotContains(t, spec.Capabilities, abi.ModuleExec)
		}
	}
}

// The functions that guests of these tests import beside those of all.
const (
	fnExecOpen = fnCount + iota
	fnExecRead
	fnExecWrite
	fnExecPoll
	fnExecDial
)

// commandGuest is a guest whose commands do something. Its streams have the numbers 1 to 4.
func commandGuest(message []byte, op string, body ...[]byte) []byte {
	i32, i64 := modtest.I32, modtest.I64
	two, three := modtest.Type{Params: []byte{i32, i32}, Results: []byte{i64}}, modtest.Type{Params: []byte{i32, i32, i32}, Results: []byte{i64}}
	m := guest(message, map[string][]byte{op: modtest.Code(body...)})
	m.Imports = append(m.Imports,
		modtest.Import{Module: abi.ModuleExec, Name: abi.FuncExecOpen, Type: modtest.Type{Results: []byte{i64}}},
		modtest.Import{Module: abi.ModuleStream, Name: abi.FuncStreamRead, Type: three},
		modtest.Import{Module: abi.ModuleStream, Name: abi.FuncStreamWrite, Type: three},
		modtest.Import{Module: abi.ModuleStream, Name: abi.FuncStreamPoll, Type: two},
		modtest.Import{Module: abi.ModuleNet, Name: abi.FuncNetDial, Type: two},
	)
	m.Data = append(m.Data, modtest.Data{Offset: pollAt, Bytes: pollForEver})
	m.Pages = 4
	return m.Bytes()
}

// openAndAnswer opens the streams of a command and answers with the status and what came.
func openAndAnswer() []byte {
	const status = inputAt
	return modtest.Code(
		modtest.I32Const(status), modtest.Call(fnExecOpen), []byte{0x37, 3, 0}, // i64.store
		modtest.I32Const(status+8), modtest.Call(fnResult),
		modtest.I32Const(status), modtest.I32Const(8), modtest.I32Const(status), modtest.Load(), modtest.Add, modtest.Call(fnOutput),
		modtest.I32Const(0))
}

// Whatever a command's driver waits for, its call ends with its context, and its streams with it.
func TestACommandThatWaitsForItsStreamsEndsWithItsCall(t *testing.T) {
	const buffer = 64 << 10
	open := modtest.Code(modtest.Call(fnExecOpen), modtest.Drop)
	call := func(fn uint32, args ...int32) (code []byte) {
		for _, a := range args {
			code = append(code, modtest.I32Const(a)...)
		}
		return modtest.Loop(code, modtest.Call(fn), modtest.Drop)
	}
	for name, then := range map[string][]byte{
		"input that does not come":       call(fnExecRead, 1, buffer, 100),
		"sizes that do not come":         call(fnExecRead, 4, buffer, 100),
		"output that nobody takes":       call(fnExecWrite, 2, buffer, 100_000),
		"polling for ever":               call(fnExecPoll, pollAt, int32(len(pollForEver))),
		"opening again and again":        call(fnExecOpen),
		"nothing, with input on its way": modtest.Loop(sleepLong()),
	} {
		t.Run(name, func(t *testing.T) {
			p := newWorld(t, host.Limits{}).ready(t, commandGuest(nil, abi.OpDriverExecTask, open, then, modtest.I32Const(0)), host.Grants{})
			ctx, cancel := context.WithCancel(t.Context())
			ends, ended, _ := startCommand(ctx, t, p)
			fed := make(chan struct{})
			go func() {
				defer close(fed)
				if strings.Contains(name, "on its way") {
					_, _ = ends.keys.Write(make([]byte, 10*stream.PipeBytes))
				}
			}()
			require.Eventually(t, func() bool { return p.Stats().Streams == 4 }, testTimeout, time.Millisecond)
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
			<-fed
			require.Zero(t, p.Stats().Streams)
			require.Zero(t, p.Stats().AtWork)
		})
	}
}

func TestEndlessOutputOfACommandTakesNoMemory(t *testing.T) {
	p := newWorld(t, host.Limits{}).ready(t, commandGuest(nil, abi.OpDriverExecTask,
		modtest.Call(fnExecOpen), modtest.Drop,
		modtest.Loop(modtest.I32Const(2), modtest.I32Const(64<<10), modtest.I32Const(100_000), modtest.Call(fnExecWrite), modtest.Drop),
		modtest.I32Const(0)), host.Grants{})
	ctx, cancel := context.WithCancel(t.Context())
	ends, ended, _ := startCommand(ctx, t, p)
	var written uint64
	require.Eventually(t, func() bool { // it has come to a halt
		defer func() { written = p.Stats().StreamWritten }()
		return written > 0 && written == p.Stats().StreamWritten
	}, testTimeout, 10*time.Millisecond)
	require.LessOrEqual(t, written, uint64(2*stream.PipeBytes))
	_, err := io.CopyN(io.Discard, ends.stdout, 1<<20)
	require.NoError(t, err, "it goes on as it is read")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestTheStreamsOfACommandAreOpenedOnceAndOnlyForIt(t *testing.T) {
	message := mustMarshal(&wasmnodev1.NetDialRequest{Address: listenSilently(t)})
	address := message[2:] // behind the field's tag and length
	dial := modtest.Code(modtest.I32Const(messageAt), modtest.I32Const(int32(len(message))), modtest.Call(fnExecDial), modtest.Drop)
	for name, c := range map[string]struct {
		op   string
		body []byte
		code abi.Code
		says string
		open int // streams that were opened before
	}{
		"another operation": {abi.OpDriverStartTask, openAndAnswer(), abi.FailedPrecondition, "this call is about no command", 0},
		"a second time":     {abi.OpDriverExecTask, modtest.Code(modtest.Call(fnExecOpen), modtest.Drop, openAndAnswer()), abi.FailedPrecondition, "were opened before", 0},
		"no room for all":   {abi.OpDriverExecTask, modtest.Code(modtest.Times(stream.PerCall-3, 1, dial), openAndAnswer()), abi.ResourceExhausted, "the call has 256 streams open", stream.PerCall - 3},
	} {
		t.Run(name, func(t *testing.T) {
			p := newWorld(t, host.Limits{}).ready(t, commandGuest(message, c.op, c.body), host.Grants{Net: host.NetGrant{Addresses: []string{string(address)}}})
			var out []byte
			var err error
			scope := taskScope(t)
			ctx := host.WithStreams(t.Context(), func() host.CommandStreams {
				stdin, _ := io.Pipe()
				_, stdout := io.Pipe()
				_, stderr := io.Pipe()
				return host.CommandStreams{Stdin: stdin, Stdout: stdout, Stderr: stderr}
			})
			out, err = p.Call(ctx, c.op, nil, scope)
			require.NoError(t, err)
			code, _ := decodeAnswer(t, out)
			require.Equal(t, uint32(c.code), code)
			require.ErrorContains(t, answeredError(t, out), c.says)
			require.EqualValues(t, c.open, p.Stats().Opened[abi.ModuleNet])
			require.Zero(t, p.Stats().Streams)
		})
	}
}

func TestAPluginRunsABoundedNumberOfCommands(t *testing.T) {
	p := newWorld(t, host.Limits{Commands: 2}).ready(t, commandGuest(nil, abi.OpDriverExecTask,
		modtest.Call(fnExecOpen), modtest.Drop, modtest.Loop(sleepLong()), modtest.I32Const(0)), host.Grants{})
	ctx, cancel := context.WithCancel(t.Context())
	var running []<-chan error
	for range 2 {
		_, ended, _ := startCommand(ctx, t, p)
		running = append(running, ended)
	}
	require.Eventually(t, func() bool { return p.Stats().Streams == 8 }, testTimeout, time.Millisecond)
	_, ended, _ := startCommand(ctx, t, p)
	err := <-ended
	require.EqualError(t, err, "plugin test runs 2 commands, which is the limit")
	require.True(t, abi.IsRecoverable(err))
	_, err = p.Call(ctx, abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err, "others are not held up")
	cancel()
	for _, ended := range running {
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}
