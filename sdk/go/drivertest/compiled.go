package drivertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
)

// The bounds of a compiled plugin here. They are generous: a test machine may be busy.
const (
	callTimeout      = 30 * time.Second
	memoryLimitPages = 256 // 16 MiB
	maxAnswer        = 4 << 20
)

// compilationCache makes each plugin cost one compilation a test process.
var compilationCache = sync.OnceValue(wazero.NewCompilationCache)

// NewCompiled returns a node with a driver that was compiled to WebAssembly, in any
// language. clock is the time that it sees; nil: the real one. The directories are those
// that an operator grants it to read.
func NewCompiled(t T, wasm []byte, clock *Clock, readOnly ...string) *Node {
	t.Helper()
	return newNode(t, compile(t, wasm, abi.RequiredDriverOps, &compiled{clock: clock, dirs: readOnly}))
}

// compile makes a plugin of c.
func compile(t T, wasm []byte, required []string, c *compiled) plugin {
	t.Helper()
	p, err := load(t, wasm, required, c)
	if err != nil {
		t.Fatalf("drivertest: %v", err)
	}
	return p
}

// load is compile, but returns what is wrong with the file.
func load(t T, wasm []byte, required []string, c *compiled) (plugin, error) {
	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().
		WithCompilationCache(compilationCache()).
		WithCloseOnContextDone(true).
		WithMemoryLimitPages(memoryLimitPages))
	t.Cleanup(func() { _ = runtime.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, runtime)
	if err := exportCapabilities(ctx, runtime); err != nil {
		return nil, err
	}
	module, err := runtime.CompileModule(ctx, wasm)
	if err != nil {
		return nil, err
	}
	if err := checkExports(module, required); err != nil {
		return nil, err
	}
	c.runtime, c.module = runtime, module
	return c, nil
}

// checkExports refuses what no node would take as a plugin.
func checkExports(module wazero.CompiledModule, required []string) error {
	exports := module.ExportedFunctions()
	if _, ok := exports["_start"]; ok {
		return fmt.Errorf("a WASI command, not a plugin: build it with -buildmode=c-shared, or as a reactor")
	}
	for _, name := range required {
		f, ok := exports[name]
		if !ok {
			return fmt.Errorf("export %q is missing", name)
		}
		if !is(f.ParamTypes(), api.ValueTypeI32) || !is(f.ResultTypes(), api.ValueTypeI32) {
			return fmt.Errorf("export %q is not (i32) -> i32", name)
		}
	}
	if module.ExportedMemories()["memory"] == nil {
		return fmt.Errorf("export %q, the memory, is missing", "memory")
	}
	return nil
}

func is(types []api.ValueType, want api.ValueType) bool { return len(types) == 1 && types[0] == want }

type compiled struct {
	runtime wazero.Runtime
	module  wazero.CompiledModule
	clock   *Clock
	dirs    []string // granted read-only
}

func (c *compiled) instance(ctx context.Context, host hostcall.Host) (instance, error) {
	i := &compiledInstance{host: host}
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions(abi.ExportInitialize).
		WithRandSource(rand.Reader).WithStdout(&lines{host: host}).WithStderr(&lines{host: host})
	files := wazero.NewFSConfig()
	for _, dir := range c.dirs {
		files = files.WithReadOnlyDirMount(dir, dir)
	}
	if task, alloc := host.TaskDirs(); task != "" {
		files = files.WithDirMount(task, abi.TaskDir).WithDirMount(alloc, abi.TaskAllocDir)
	}
	config = config.WithFSConfig(files)
	if c.clock != nil {
		config = config.
			WithWalltime(func() (int64, int32) { now := c.clock.Now(); return now.Unix(), int32(now.Nanosecond()) }, sys.ClockResolution(1)).
			WithNanotime(func() int64 { return c.clock.Now().UnixNano() }, sys.ClockResolution(1)).
			WithNanosleep(func(ns int64) { c.clock.Sleep(time.Duration(ns)) })
	} else {
		config = config.WithSysWalltime().WithSysNanotime().WithSysNanosleep()
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	module, err := c.runtime.InstantiateModule(withCall(ctx, i), c.module, config)
	if err != nil {
		return nil, &FaultError{Operation: abi.ExportInitialize, Cause: err}
	}
	i.module = module
	return i, nil
}

// compiledInstance is one instance of a plugin and the call that it is in.
type compiledInstance struct {
	host   hostcall.Host
	module api.Module

	input    []byte
	answer   []byte
	answered bool
	staged   []byte // the last capability's answer
}

func (i *compiledInstance) call(ctx context.Context, operation string, request []byte) ([]byte, error) {
	f := i.module.ExportedFunction(operation)
	if f == nil {
		return nil, abi.NewError(abi.Unimplemented, "no export "+operation)
	}
	i.input, i.answer, i.answered, i.staged = request, nil, false, nil
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	results, err := f.Call(withCall(ctx, i), uint64(len(request)))
	if err != nil {
		return nil, &FaultError{Operation: operation, Cause: err}
	}
	code := uint32(results[0])
	if !i.answered {
		return nil, &FaultError{Operation: operation, Cause: fmt.Errorf("returned %d without handing an answer over", code)}
	}
	if code == 0 {
		return i.answer, nil
	}
	var message wasmnodev1.Error
	if err := message.UnmarshalVT(i.answer); err != nil || message.Code == 0 {
		return nil, &FaultError{Operation: operation, Cause: fmt.Errorf("returned %d with an answer that is not an Error message", code)}
	}
	return nil, abi.FromProto(&message)
}

func (i *compiledInstance) close(ctx context.Context) { _ = i.module.Close(ctx) }

type callKey struct{}

func withCall(ctx context.Context, i *compiledInstance) context.Context {
	return context.WithValue(ctx, callKey{}, i)
}

// lines makes log lines of what a plugin prints.
type lines struct {
	host hostcall.Host
	rest []byte
}

var _ io.Writer = (*lines)(nil)

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		l.host.LogWrite(uint32(wasmnodev1.LogLevel_LOG_LEVEL_INFO), string(line), nil)
		l.rest = rest
	}
}
