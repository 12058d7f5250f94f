package host_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/host/outbound"
	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/mux"
	"github.com/wasmnode/wasmnode/workload/process"
	"github.com/wasmnode/wasmnode/workload/wasi"
)

// world is a host on a real engine and a real supervisor.
type world struct {
	store *testStore
	*host.Host
	engine    *sandbox.Engine
	workloads workload.Runtime
	logs      *logs
	lookup    outbound.Lookup // that plugins' names are looked up by

	mu        sync.Mutex
	events    []*wasmnodev1.TaskEvent
	refreshes []string
}

// worlds gives each one's processes a name.
var worlds atomic.Int64

// newWorld makes a world whose plugins are bounded by limits.
func newWorld(t testing.TB, limits host.Limits) *world {
	t.Helper()
	return newWorldOn(t, codeCache, limits)
}

// testTimeout bounds what a machine with much else to do is late with: a program is compiled
// within the call that starts it, half a minute under the race detector with nothing else to do.
const testTimeout = 5 * time.Minute

// newWorldOn makes one with a code cache of its own; empty: without. What a test does not
// bound takes as long as it needs.
func newWorldOn(t testing.TB, codeCache string, limits host.Limits) *world {
	t.Helper()
	limits.DescribeTime, limits.CallTimeout = cmp.Or(limits.DescribeTime, testTimeout), cmp.Or(limits.CallTimeout, testTimeout)
	t.TempDir() // the test's directory is then removed after all that writes in it has ended
	w := &world{logs: &logs{}, store: &testStore{}, lookup: outbound.SystemLookup}
	logger := hclog.New(&hclog.LoggerOptions{Output: w.logs, Level: hclog.Trace, JSONFormat: true})
	var err error
	w.engine, err = sandbox.Open(sandbox.Config{CacheDir: codeCache})
	require.NoError(t, err)
	processes, err := process.New(process.Config{Logger: hclog.NewNullLogger(), Name: fmt.Sprintf("host-test-%d-%d", os.Getpid(), worlds.Add(1))})
	require.NoError(t, err)
	programs := wasi.New(wasi.Config{Logger: hclog.NewNullLogger(), Engine: w.engine, ShareMemory: processes.ShareMemory})
	w.workloads = mux.Runtime{WASI: programs, Processes: processes}
	w.Host = host.New(host.Config{
		Logger:    logger,
		Engine:    w.engine,
		Workloads: w.workloads,
		Store:     w.store,
		Lookup:    func(ctx context.Context, name string) ([]netip.Addr, error) { return w.lookup(ctx, name) },
		Version:   "0.0.0",
		Limits:    limits,
		Chroot: map[string]string{
			"/bin": "/bin", "/etc/hosts": "/etc/hosts", "/etc/passwd": "/etc/passwd", "/etc/resolv.conf": "/etc/resolv.conf", "/lib": "/lib", "/lib64": "/lib64", "/usr": "/usr", "/none": "/none",
		},
		OnRefresh: func(plugin string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refreshes = append(w.refreshes, plugin)
		},
	})
	t.Cleanup(func() {
		require.NoError(t, programs.Close())
		require.NoError(t, processes.Close())
		require.NoError(t, w.engine.Close(context.Background()))
	})
	return w
}

// hostOf returns another host of the world's engine, whose workloads belong to that runtime.
func (w *world) hostOf(runtime workload.Runtime) *host.Host {
	return host.New(host.Config{Logger: hclog.NewNullLogger(), Engine: w.engine, Workloads: runtime, Version: "0.0.0", Limits: host.Limits{
		DescribeTime: testTimeout, CallTimeout: testTimeout,
	}})
}

// recordingEvents returns a context for calls whose events are recorded.
func (w *world) recordingEvents(ctx context.Context) context.Context {
	return host.WithEvents(ctx, func(e *wasmnodev1.TaskEvent) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, e)
		return nil
	})
}

// load loads a plugin, without configuring it.
func (w *world) load(t testing.TB, wasm []byte) *host.Plugin {
	t.Helper()
	p, err := w.Load(t.Context(), host.NewSource(wasm))
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// ready loads a plugin and configures it.
func (w *world) ready(t testing.TB, wasm []byte, grants host.Grants) *host.Plugin {
	t.Helper()
	p := w.load(t, wasm)
	require.NoError(t, p.Configure(t.Context(), grants, []byte("{}")))
	return p
}

// logs is what the node logged, a JSON object a line.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

type line = map[string]any

func (l *logs) lines(t testing.TB) (out []line) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for text := range strings.Lines(l.buf.String()) {
		var m line
		require.NoError(t, json.Unmarshal([]byte(text), &m), text)
		out = append(out, m)
	}
	return out
}

func (l *logs) messages(t testing.TB) (out []string) {
	t.Helper()
	for _, m := range l.lines(t) {
		out = append(out, fmt.Sprint(m["@message"]))
	}
	return out
}

// The functions that every guest of these tests imports, by index.
const (
	fnInput uint32 = iota
	fnOutput
	fnResult
	fnLog
	fnEvent
	fnRefresh
	fnTaskOutput
	fnStart
	fnExit
	fnSleep
	fnRead
	fnTaskMark
	fnTaskMarked
	fnCount
)

func guestImports() []modtest.Import {
	i32, i64 := modtest.I32, modtest.I64
	structured := modtest.Type{Params: []byte{i32, i32}, Results: []byte{i64}}
	return []modtest.Import{
		{Module: abi.ModuleABI, Name: abi.FuncInput, Type: modtest.Type{Params: []byte{i32}}},
		{Module: abi.ModuleABI, Name: abi.FuncOutput, Type: modtest.Type{Params: []byte{i32, i32}}},
		{Module: abi.ModuleABI, Name: abi.FuncResult, Type: modtest.Type{Params: []byte{i32}}},
		{Module: abi.ModuleLog, Name: abi.FuncLogWrite, Type: modtest.Type{Params: []byte{i32, i32, i32, i32, i32}}},
		{Module: abi.ModuleTask, Name: abi.FuncTaskEvent, Type: structured},
		{Module: abi.ModuleTask, Name: abi.FuncTaskRefresh},
		{Module: abi.ModuleTask, Name: abi.FuncTaskOutput, Type: modtest.Type{Params: []byte{i32, i32, i32}, Results: []byte{i64}}},
		{Module: abi.ModuleWasm, Name: abi.FuncWasmStart, Type: structured},
		{Module: abi.ModuleWASI, Name: "proc_exit", Type: modtest.Type{Params: []byte{i32}}},
		{Module: abi.ModuleWASI, Name: "poll_oneoff", Type: modtest.Type{Params: []byte{i32, i32, i32, i32}, Results: []byte{i32}}},
		{Module: abi.ModuleWASI, Name: "fd_read", Type: modtest.Type{Params: []byte{i32, i32, i32, i32}, Results: []byte{i32}}},
		{Module: abi.ModuleTask, Name: abi.FuncTaskMark, Type: modtest.Type{Params: []byte{i32, i32, i32}, Results: []byte{i64}}},
		{Module: abi.ModuleTask, Name: abi.FuncTaskMarked, Type: modtest.Type{Params: []byte{i32}, Results: []byte{i64}}},
	}
}

// Where guests of these tests have their things in memory.
const (
	describeAt = 1 << 10
	messageAt  = 8 << 10 // what a test put there
	inputAt    = 32 << 10
)

// guest is a driver named "test" that answers every operation with an empty message,
// but those that ops has a body for. At messageAt is message.
func guest(message []byte, ops map[string][]byte) *modtest.Module {
	describe, err := (&wasmnodev1.DriverDescribeResponse{Name: "test", Version: "1.0.0"}).MarshalVT()
	if err != nil {
		panic(err)
	}
	m := &modtest.Module{Imports: guestImports(), Pages: 1, Data: []modtest.Data{{Offset: describeAt, Bytes: describe}, {Offset: messageAt, Bytes: message}}}
	bodies := map[string][]byte{
		abi.OpDriverDescribe:    answer(describeAt, len(describe)),
		abi.OpDriverConfigure:   answer(0, 0),
		abi.OpDriverFingerprint: answer(0, 0),
		abi.OpDriverStartTask:   answer(0, 0),
	}
	for op, body := range ops {
		bodies[op] = body
	}
	for _, op := range slices.Sorted(maps.Keys(bodies)) {
		body := bodies[op]
		m.Funcs = append(m.Funcs, modtest.Func{Export: op, Type: modtest.Operation, Locals: 2, Body: body})
	}
	return m
}

// answer hands over n bytes at ptr and returns 0.
func answer(ptr int32, n int) []byte {
	return modtest.Code(modtest.I32Const(ptr), modtest.I32Const(int32(n)), modtest.Call(fnOutput), modtest.I32Const(0))
}

// echo answers with the input.
func echo() []byte {
	return modtest.Code(
		modtest.I32Const(inputAt), modtest.Call(fnInput),
		modtest.I32Const(inputAt), modtest.Get(0), modtest.Call(fnOutput), modtest.I32Const(0))
}

// ask calls a structured capability with n bytes at messageAt and answers with its
// code and, behind that, its answer.
func ask(fn uint32, n int) []byte { return askAt(fn, messageAt, n) }

// askAt asks with the n bytes at a place.
func askAt(fn uint32, at int32, n int) []byte {
	const status = inputAt
	return modtest.Code(
		modtest.I32Const(status), // where the status goes
		modtest.I32Const(at), modtest.I32Const(int32(n)), modtest.Call(fn),
		[]byte{0x37, 3, 0}, // i64.store
		modtest.I32Const(status+8), modtest.Call(fnResult),
		modtest.I32Const(status), modtest.I32Const(8), modtest.I32Const(status), modtest.Load(), modtest.Add, modtest.Call(fnOutput),
		modtest.I32Const(0))
}

// decodeAnswer splits what ask answered.
func decodeAnswer(t testing.TB, answer []byte) (code uint32, message []byte) {
	t.Helper()
	require.GreaterOrEqual(t, len(answer), 8)
	var status uint64
	for i, b := range answer[:8] {
		status |= uint64(b) << (8 * i)
	}
	code, n := abi.SplitStatus(status)
	require.Len(t, answer[8:], int(n))
	return code, answer[8:]
}

// answeredError is what ask answered, as the error that the capability gave.
func answeredError(t testing.TB, answer []byte) *abi.Error {
	t.Helper()
	code, message := decodeAnswer(t, answer)
	require.NotZero(t, code)
	var m wasmnodev1.Error
	require.NoError(t, m.UnmarshalVT(message))
	require.EqualValues(t, code, m.Code)
	return abi.FromProto(&m)
}

// taskScope is a task with directories and log files of its own.
func taskScope(t testing.TB) *host.TaskScope {
	t.Helper()
	dir := t.TempDir()
	return &host.TaskScope{Config: &wasmnodev1.TaskConfig{
		Id:          "alloc/web/1",
		StdoutPath:  filepath.Join(dir, "web.stdout"),
		StderrPath:  filepath.Join(dir, "web.stderr"),
		Directories: &wasmnodev1.TaskDirectories{Task: t.TempDir(), Shared: t.TempDir()},
		Resources:   &wasmnodev1.Resources{MemoryBytes: 64 << 20},
		Log:         &wasmnodev1.LogConfig{MaxFiles: 1, MaxFileSizeBytes: 1 << 20},
	}}
}
