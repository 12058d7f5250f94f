package sandbox_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sandbox/scan"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

const megabyte = 1 << 20

func open(t testing.TB, dir string) *sandbox.Engine {
	t.Helper()
	e, err := sandbox.Open(sandbox.Config{CacheDir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	return e
}

// compileIn takes a file through the whole pipeline.
func compileIn(ctx context.Context, e *sandbox.Engine, wasm []byte, opts sandbox.Options) (*sandbox.Module, error) {
	scanned, err := scan.Read(scan.NewSource(wasm), scan.DefaultLimits())
	if err != nil {
		return nil, &sandbox.StageError{Stage: sandbox.StageScan, Err: err}
	}
	return e.Compile(ctx, scanned, opts)
}

func compile(t testing.TB, e *sandbox.Engine, wasm []byte) *sandbox.Module {
	t.Helper()
	m, err := compileIn(t.Context(), e, wasm, sandbox.Options{MemoryMaxBytes: 64 * megabyte})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close(context.Background())) })
	return m
}

func instantiate(t testing.TB, m *sandbox.Module) *sandbox.Instance {
	t.Helper()
	instance, err := m.Instantiate(t.Context(), wazero.NewModuleConfig().WithName(""))
	require.NoError(t, err)
	return instance
}

// call calls "run" of a new instance.
func call(t testing.TB, ctx context.Context, m *sandbox.Module, stack []uint64) error {
	i := instantiate(t, m)
	return i.Call(ctx, i.ExportedFunction("run"), stack)
}

// run is a module with one function "run" of type (i32) -> i32.
func run(locals uint32, body ...[]byte) *modtest.Module {
	return &modtest.Module{Pages: 1, Funcs: []modtest.Func{{Export: "run", Type: modtest.Operation, Locals: locals, Body: modtest.Code(body...)}}}
}

// fib computes what "run" gets, with calls alone.
func fib() []byte {
	return run(0,
		modtest.Get(0), modtest.I32Const(2), []byte{0x48}, []byte{0x04, 0x40}, modtest.Get(0), modtest.Return, []byte{0x0b},
		modtest.Get(0), modtest.I32Const(-1), modtest.Add, modtest.Call(0),
		modtest.Get(0), modtest.I32Const(-2), modtest.Add, modtest.Call(0), modtest.Add).Bytes()
}

func TestACompiledFunctionRuns(t *testing.T) {
	m := compile(t, open(t, ""), fib())
	require.Equal(t, scan.NewSource(fib()).Digest(), m.Digest())
	stack := []uint64{20}
	require.NoError(t, call(t, t.Context(), m, stack))
	require.EqualValues(t, 6765, stack[0])
}

func TestAModuleIsRefusedAtAStage(t *testing.T) {
	large := &modtest.Module{Pages: 1025}
	unknown := run(0, modtest.Get(0))
	unknown.Imports = []modtest.Import{{Module: "env", Name: "f", Type: modtest.Operation}}
	for name, c := range map[string]struct {
		wasm   []byte
		memory uint64
		stage  sandbox.Stage
		text   string
	}{
		"nothing":             {nil, megabyte, sandbox.StageScan, "scan: "},
		"a text":              {[]byte("#!/bin/sh\necho hello\n"), megabyte, sandbox.StageScan, "not a WebAssembly module"},
		"half a module":       {fib()[:40], megabyte, sandbox.StageScan, "scan: offset"},
		"no memory allowed":   {fib(), 0, sandbox.StagePolicy, "less than one page"},
		"a page less one":     {fib(), sandbox.PageSize - 1, sandbox.StagePolicy, "less than one page"},
		"more memory":         {large.Bytes(), 64 * megabyte, sandbox.StagePolicy, "begins with 67174400 bytes of memory, the limit is 67108864"},
		"a type error":        {run(0).Bytes(), megabyte, sandbox.StageCompile, "compile: "},
		"an import count":     {append([]byte("\x00asm\x01\x00\x00\x00\x02\x05"), 0xff, 0xff, 0xff, 0xff, 0x0f), megabyte, sandbox.StageScan, "count 4294967295"},
		"an import of nobody": {unknown.Bytes(), megabyte, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := compileIn(t.Context(), open(t, ""), c.wasm, sandbox.Options{MemoryMaxBytes: c.memory})
			if c.stage == "" { // it compiles, and does not link
				require.NoError(t, err)
				_, err = m.Instantiate(t.Context(), wazero.NewModuleConfig())
				require.ErrorContains(t, err, "env")
				require.NoError(t, m.Close(t.Context()))
				return
			}
			var refused *sandbox.StageError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, c.stage, refused.Stage)
			require.ErrorContains(t, err, c.text)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestMemoryEndsAtItsLimit(t *testing.T) {
	grow := run(0, modtest.Get(0), modtest.Grow).Bytes()
	m, err := compileIn(t.Context(), open(t, ""), grow, sandbox.Options{MemoryMaxBytes: 3*sandbox.PageSize + 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close(t.Context())) }()
	i := instantiate(t, m)
	for _, c := range []struct {
		pages uint64
		want  int32
	}{{2, 1}, {1, -1}, {0, 3}} {
		stack := []uint64{c.pages}
		require.NoError(t, i.Call(t.Context(), i.ExportedFunction("run"), stack))
		require.Equal(t, c.want, int32(stack[0]))
	}
}

func TestAReservedMemoryGrowsInPlaceAndIsCounted(t *testing.T) {
	grow := run(0, modtest.I32Const(8), modtest.Load(), modtest.Drop, modtest.Get(0), modtest.Grow).Bytes()
	m, err := compileIn(t.Context(), open(t, ""), grow, sandbox.Options{MemoryMaxBytes: 4 * sandbox.PageSize})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close(t.Context())) }()
	guest := &sandbox.Guest{}
	memory := &guest.Memory
	i, err := m.Instantiate(sandbox.WithGuest(t.Context(), guest), wazero.NewModuleConfig())
	require.NoError(t, err)
	require.EqualValues(t, sandbox.PageSize, memory.Size())
	for _, c := range []struct {
		pages uint64
		want  int32
	}{{3, 1}, {0, 4}, {1, -1}} {
		require.False(t, memory.Refused())
		stack := []uint64{c.pages}
		require.NoError(t, i.Call(t.Context(), i.ExportedFunction("run"), stack))
		require.Equal(t, c.want, int32(stack[0]))
	}
	require.True(t, memory.Refused())
	require.NoError(t, i.Close(t.Context()))
	require.NoError(t, i.Close(t.Context()))
	require.Zero(t, memory.Size())
	require.EqualValues(t, 4*sandbox.PageSize, memory.Most())
}

func TestTheContextEndsEveryWayToRunForever(t *testing.T) {
	tree := &modtest.Module{Pages: 1} // each function calls the next one twice: 2^40 calls
	for i := range uint32(40) {
		tree.Funcs = append(tree.Funcs, modtest.Func{Type: modtest.Operation, Body: modtest.Code(modtest.Get(0), modtest.Call(i+1), modtest.Call(i+1))})
	}
	tree.Funcs = append(tree.Funcs, modtest.Func{Type: modtest.Operation, Body: modtest.Get(0)})
	tree.Funcs[0].Export = "run"
	for name, module := range map[string]*modtest.Module{
		"loop":         run(0, modtest.Loop(), modtest.Get(0)),
		"nested loops": run(2, modtest.Loop(modtest.Times(1000, 1, modtest.Times(1000, 2))), modtest.Get(0)),
		"fills":        run(0, modtest.Loop(modtest.I32Const(0), modtest.I32Const(0), modtest.I32Const(1<<16), modtest.Fill), modtest.Get(0)),
		"call tree":    tree,
	} {
		t.Run(name, func(t *testing.T) {
			m := compile(t, open(t, ""), module.Bytes())
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			err := call(t, ctx, m, []uint64{0})
			require.True(t, sandbox.Interrupted(err), "%v", err)
			_, exited := sandbox.ExitCode(err)
			require.False(t, exited)
		})
	}
}

func TestAStartFunctionIsEndedByTheContext(t *testing.T) {
	start := uint32(0)
	m := compile(t, open(t, ""), (&modtest.Module{Pages: 1, Start: &start, Funcs: []modtest.Func{{Body: modtest.Loop()}}}).Bytes())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := m.Instantiate(ctx, wazero.NewModuleConfig())
	require.True(t, sandbox.Interrupted(err), "%v", err)
	_, err = m.Instantiate(ctx, wazero.NewModuleConfig())
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestAWASIProgramRunsAndReturnsItsExitCode(t *testing.T) {
	m := compile(t, open(t, ""), guestbuild.Program(t, "guest-examples/programs/exit"))
	var stdout bytes.Buffer
	_, err := m.Instantiate(t.Context(), wazero.NewModuleConfig().WithName("").WithArgs("exit", "7").WithStdout(&stdout))
	code, ok := sandbox.ExitCode(err)
	require.True(t, ok, "%v", err)
	require.EqualValues(t, 7, code)
}

func TestCompiledCodeIsKeptAndDamageToItIsDetected(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "code")
	logs := &bytes.Buffer{}
	load := func() {
		e, err := sandbox.Open(sandbox.Config{CacheDir: dir, Logger: hclog.New(&hclog.LoggerOptions{Output: logs})})
		require.NoError(t, err)
		m, err := compileIn(t.Context(), e, fib(), sandbox.Options{MemoryMaxBytes: megabyte})
		require.NoError(t, err)
		stack := []uint64{10}
		require.NoError(t, call(t, t.Context(), m, stack))
		require.EqualValues(t, 55, stack[0])
		require.NoError(t, m.Close(t.Context()))
		require.NoError(t, m.Close(t.Context()), "closing twice is not an error")
		require.NoError(t, e.Close(t.Context()))
	}
	load()
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.EqualValues(t, 0o700, info.Mode().Perm())
	code, err := filepath.Glob(filepath.Join(dir, "*", "wazero-*", "*"))
	require.NoError(t, err)
	require.Len(t, code, 1)
	before, err := os.ReadFile(code[0])
	require.NoError(t, err)

	load()
	require.Empty(t, logs.String())
	for name, damage := range map[string]func() error{
		"flipped": func() error {
			return os.WriteFile(code[0], append([]byte{before[0], before[1] ^ 1}, before[2:]...), 0o600)
		},
		"cut":       func() error { return os.Truncate(code[0], int64(len(before)/2)) },
		"empty":     func() error { return os.Truncate(code[0], 0) },
		"no seal":   func() error { return os.Remove(filepath.Join(filepath.Dir(filepath.Dir(code[0])), "seal")) },
		"a symlink": func() error { return replaceByLink(code[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, damage())
			load()
			after, err := os.ReadFile(code[0])
			require.NoError(t, err)
			require.Equal(t, before, after)
			logs.Reset()
			load()
			require.Empty(t, logs.String())
		})
	}
}

func replaceByLink(path string) error {
	if err := os.Rename(path, path+".away"); err != nil {
		return err
	}
	return os.Symlink(path+".away", path)
}

func TestAFailingCacheDirectoryDoesNotFailTheCompile(t *testing.T) {
	dir, logs := filepath.Join(t.TempDir(), "code"), &bytes.Buffer{}
	e, err := sandbox.Open(sandbox.Config{CacheDir: dir, Logger: hclog.New(&hclog.LoggerOptions{Output: logs})})
	require.NoError(t, err)
	require.NoError(t, os.Remove(dir))
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	m := compile(t, e, fib())
	stack := []uint64{10}
	require.NoError(t, call(t, t.Context(), m, stack))
	require.EqualValues(t, 55, stack[0])
	require.Contains(t, logs.String(), "compiled code could not be kept")
	_, err = compileIn(t.Context(), e, run(0).Bytes(), sandbox.Options{MemoryMaxBytes: megabyte})
	require.ErrorContains(t, err, "compile: invalid function[0]")
}

func TestTheCacheStaysWithinItsBound(t *testing.T) {
	dir := t.TempDir()
	keep := func(bound int64, n int32) {
		e, err := sandbox.Open(sandbox.Config{CacheDir: dir, CacheBytes: bound})
		require.NoError(t, err)
		m, err := compileIn(t.Context(), e, run(0, modtest.I32Const(n)).Bytes(), sandbox.Options{MemoryMaxBytes: megabyte})
		require.NoError(t, err)
		require.NoError(t, m.Close(t.Context()))
		require.NoError(t, e.Close(t.Context()))
	}
	kept := func() int {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		return len(entries)
	}
	for n := range int32(3) {
		keep(megabyte, n)
	}
	require.Equal(t, 3, kept())
	keep(1, 3) // the one in use stays, whatever the bound
	require.Equal(t, 1, kept())
	_, err := sandbox.Open(sandbox.Config{CacheDir: dir, CacheBytes: -1})
	require.Error(t, err)
}

func TestACacheThatCannotBeUsedIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := sandbox.Open(sandbox.Config{CacheDir: file})
	require.ErrorContains(t, err, "compilation cache: ")
}

func TestConcurrentCompilesOfOneModuleShareTheirCode(t *testing.T) {
	e := open(t, t.TempDir())
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			m, err := compileIn(context.Background(), e, run(0, modtest.I32Const(int32(i%3))).Bytes(), sandbox.Options{MemoryMaxBytes: uint64(i%4+1) * megabyte})
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { require.NoError(t, m.Close(context.Background())) }()
			instance, err := m.Instantiate(context.Background(), wazero.NewModuleConfig().WithName(""))
			stack := []uint64{0}
			if err == nil {
				err = instance.Call(context.Background(), instance.ExportedFunction("run"), stack)
			}
			if err != nil || stack[0] != uint64(i%3) {
				t.Errorf("got %d, error %v", stack[0], err)
			}
		})
	}
	wg.Wait()
}

// TestModulesAreCompiledSideBySide holds as many compiles as there may be at once: the next one is
// the one that is wanted, and not the one that has waited longer.
func TestModulesAreCompiledSideBySide(t *testing.T) {
	e := open(t, "")
	atOnce := min(runtime.NumCPU(), 4)
	var wg sync.WaitGroup
	defer wg.Wait()
	entered := make(chan string, atOnce+2)
	start := func(name string, n int, wanted bool) (waits <-chan struct{}, leave func()) {
		gate, waiting := make(chan struct{}), waitedFor{context.Background(), make(chan struct{}, 1)}
		wg.Go(func() {
			m, err := compileIn(waiting, e, run(0, modtest.I32Const(int32(n))).Bytes(), sandbox.Options{
				MemoryMaxBytes: megabyte, Wanted: func() bool { return wanted },
				Link: func(context.Context, wazero.Runtime) error { entered <- name; <-gate; return nil },
			})
			if err == nil {
				err = m.Close(context.Background())
			}
			if err != nil {
				t.Error(err)
			}
		})
		return waiting.waits, func() { close(gate) }
	}
	var leave []func()
	for i := range atOnce {
		_, l := start("held", i, false)
		leave = append(leave, l)
		require.Equal(t, "held", <-entered)
	}
	waits, leaveUnwanted := start("unwanted", atOnce, false)
	<-waits
	waits, leaveWanted := start("wanted", atOnce+1, true)
	<-waits
	leave[0]()
	require.Equal(t, "wanted", <-entered)
	leaveWanted()
	require.Equal(t, "unwanted", <-entered)
	leaveUnwanted()
	for _, l := range leave[1:] {
		l()
	}
}

// waitedFor is a context that tells when something waits for its end, too.
type waitedFor struct {
	context.Context
	waits chan struct{} // of capacity 1
}

// Done implements [context.Context].
func (w waitedFor) Done() <-chan struct{} {
	select {
	case w.waits <- struct{}{}:
	default:
	}
	return w.Context.Done()
}

func TestWaitingForACompileEndsWithTheContext(t *testing.T) {
	e := open(t, "")
	entered, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		m, err := compileIn(context.Background(), e, fib(), sandbox.Options{MemoryMaxBytes: megabyte, Link: func(context.Context, wazero.Runtime) error {
			close(entered)
			<-leave
			return nil
		}})
		if err == nil {
			err = m.Close(context.Background())
		}
		done <- err
	}()
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := compileIn(ctx, e, fib(), sandbox.Options{MemoryMaxBytes: megabyte})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(leave)
	require.NoError(t, <-done)
}

func TestAnInstanceIsNotEnteredTwiceNorAfterItsEnd(t *testing.T) {
	module := run(0, modtest.Get(0), modtest.Call(0))
	module.Imports = []modtest.Import{{Module: "env", Name: "f", Type: modtest.Operation}}
	var i *sandbox.Instance
	var errs []error
	m, err := compileIn(t.Context(), open(t, ""), module.Bytes(), sandbox.Options{MemoryMaxBytes: megabyte, Link: func(ctx context.Context, r wazero.Runtime) error {
		_, err := r.NewHostModuleBuilder("env").NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module, _ []uint64) {
			errs = append(errs, i.Call(ctx, m.ExportedFunction("run"), []uint64{0}), i.Close(ctx))
		}), []api.ValueType{api.ValueTypeI32}, []api.ValueType{api.ValueTypeI32}).Export("f").Instantiate(ctx)
		return err
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close(t.Context())) }()
	i = instantiate(t, m)
	f := i.ExportedFunction("run")
	require.NoError(t, i.Call(t.Context(), f, []uint64{0}))
	require.Equal(t, []error{sandbox.ErrBusy, sandbox.ErrBusy}, errs)
	require.NoError(t, i.Close(t.Context()))
	require.NoError(t, i.Close(t.Context()))
	require.ErrorIs(t, i.Call(t.Context(), f, []uint64{0}), sandbox.ErrClosed)
	other := instantiate(t, m)
	require.NoError(t, m.Close(t.Context()))
	require.ErrorIs(t, other.Call(t.Context(), other.ExportedFunction("run"), []uint64{0}), sandbox.ErrClosed)
	_, err = m.Instantiate(t.Context(), wazero.NewModuleConfig())
	require.ErrorIs(t, err, sandbox.ErrClosed)
}

func TestAHostFunctionsPanicDoesNotEscape(t *testing.T) {
	module := run(0, modtest.Get(0), modtest.Call(0))
	module.Imports = []modtest.Import{{Module: "env", Name: "f", Type: modtest.Operation}}
	m, err := compileIn(t.Context(), open(t, ""), module.Bytes(), sandbox.Options{MemoryMaxBytes: megabyte, Link: func(ctx context.Context, r wazero.Runtime) error {
		_, err := r.NewHostModuleBuilder("env").NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(context.Context, api.Module, []uint64) {
			var none []int
			_ = none[len(none)]
		}), []api.ValueType{api.ValueTypeI32}, []api.ValueType{api.ValueTypeI32}).Export("f").Instantiate(ctx)
		return err
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close(t.Context())) }()
	err = call(t, t.Context(), m, []uint64{0})
	var bug runtime.Error
	require.ErrorAs(t, err, &bug)
}
