package wasi_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/wasi"
	"github.com/wasmnode/wasmnode/workload/workloadtest"
)

func spec(id string, module []byte, args ...string) *workload.Spec {
	return &workload.Spec{
		ID: id, MemoryMaxBytes: 16 * megabyte, Logs: workload.Logs{Disabled: true},
		WASI: &workload.WASIProgram{Name: "program", Module: module, Args: args},
	}
}

// withTimeout is a context that ends only when something is wrong; compiling a guest takes
// half a minute under the race detector, on a machine with nothing else to do.
func withTimeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func run(t testing.TB, s *wasi.Runtime, spec *workload.Spec) *structs.ExitResult {
	t.Helper()
	require.NoError(t, s.Start(withTimeout(t), spec))
	result, err := s.Wait(withTimeout(t), spec.ID)
	require.NoError(t, err)
	return result
}

func TestAProgramsExitIsReportedAsAShellReportsIt(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	refused := tiny{pages: 1, body: code(i32(1<<14), growMemory, drop, unreachable)}
	for name, tc := range map[string]struct {
		module tiny
		want   structs.ExitResult
	}{
		"it returned": {tiny{}, structs.ExitResult{}},
		"it trapped":  {tiny{body: unreachable}, structs.ExitResult{ExitCode: 134, Signal: 6, Err: "wasm error: unreachable"}},
		"it trapped when it got no memory": {refused, structs.ExitResult{ExitCode: 137, Signal: 9, OOMKilled: true,
			Err: "out of memory: the limit is 16777216 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, &tc.want, run(t, s, spec(name, tc.module.bytes())))
		})
	}
}

func TestExitCodesAboveAProcesssLargestAreTheLargest(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	guest := guestbuild.Program(t, workloadtest.GuestPackage)
	// -1 and -268435457 are the numbers with which the engine says that it
	// interrupted a guest.
	for _, code := range []string{"256", "-1", "-268435457", "100000"} {
		sp := spec("exit "+code, guest, "exit", code)
		require.Equal(t, &structs.ExitResult{ExitCode: 255}, run(t, s, sp), code)
	}
}

func TestAFileThatIsNotAProgramFailsTheStart(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	for name, tc := range map[string]struct {
		module []byte
		change func(*workload.Spec)
		says   string
	}{
		"nothing":              {nil, nil, "module: "},
		"text":                 {[]byte("#!/bin/sh\n"), nil, "module: "},
		"cut off":              {tiny{}.bytes()[:20], nil, "module: "},
		"a component":          {[]byte("\x00asm\x0d\x00\x01\x00"), nil, "component"},
		"a reactor":            {tiny{name: "_initialize"}.bytes(), nil, "reactor"},
		"no _start":            {tiny{name: "main"}.bytes(), nil, "does not export the function _start"},
		"a foreign import":     {tiny{imports: []tinyImport{{"env", "system", 1}}}.bytes(), nil, `it imports "system" from "env"`},
		"an unknown import":    {tiny{imports: []tinyImport{wasiImport("fd_steal", 1)}}.bytes(), nil, "fd_steal"},
		"a mistyped import":    {tiny{imports: []tinyImport{wasiImport("fd_close", 2)}}.bytes(), nil, "fd_close"},
		"too large at first":   {tiny{pages: 2}.bytes(), func(s *workload.Spec) { s.MemoryMaxBytes = 65536 }, "the limit is 65536"},
		"no memory allowed":    {tiny{}.bytes(), func(s *workload.Spec) { s.MemoryMaxBytes = 65535 }, "65535"},
		"data out of bounds":   {tiny{data: []byte("x")}.bytes(), nil, "module: "},
		"a NUL in an argument": {tiny{}.bytes(), func(s *workload.Spec) { s.WASI.Args = []string{"a\x00b"} }, "NUL"},
		"a NUL in a variable":  {tiny{}.bytes(), func(s *workload.Spec) { s.Env = map[string]string{"A": "\x00"} }, "NUL"},
		"no program":           {nil, func(s *workload.Spec) { s.WASI = nil }, "no program"},
		"a start that traps":   {tiny{start: true, body: unreachable}.bytes(), nil, "unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			sp := spec("bad", tc.module)
			if tc.change != nil {
				tc.change(sp)
			}
			err := s.Start(withTimeout(t), sp)
			require.Equal(t, abi.InvalidArgument, abi.CodeOf(err), "%v", err)
			require.False(t, abi.IsRecoverable(err))
			require.ErrorContains(t, err, "workload bad: ")
			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), "\n")
			_, err = s.Inspect(withTimeout(t), "bad")
			require.ErrorIs(t, err, abi.ErrTaskNotFound)
		})
	}
}

func TestAStartThatDoesNotReturnEndsWithItsContextOrItsWorkload(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	module := tiny{start: true, body: forever}.bytes()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Start(ctx, spec("a", module)), context.DeadlineExceeded)

	started := make(chan error, 1)
	go func() { started <- s.Start(context.Background(), spec("b", module)) }()
	require.Eventually(t, func() bool { _, err := s.Inspect(withTimeout(t), "b"); return err == nil }, time.Minute, time.Millisecond)
	require.NoError(t, s.Destroy(withTimeout(t), "b"))
	require.Equal(t, abi.Cancelled, abi.CodeOf(<-started))
	_, err := s.Wait(withTimeout(t), "b")
	require.ErrorIs(t, err, abi.ErrTaskNotFound)
}

// killWithin bounds how long a kill may take: what is not killed is at it for minutes, and
// the machine may do other work at the same time.
const killWithin = 20 * time.Second

// TestAKillReachesAProgramInTheHostsFunctions: each of these asks the host for so much
// that it would be at it for minutes or for ever.
func TestAKillReachesAProgramInTheHostsFunctions(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	const size = 12 * megabyte
	fill := code(i32(size/65536), growMemory, drop)
	for name, module := range map[string]tiny{
		"randomness without end": {imports: []tinyImport{wasiImport("random_get", 2)}, pages: 1,
			body: code(fill, loop(code(i32(0), i32(size), call(0), drop)))},
		"output without end": {imports: []tinyImport{wasiImport("fd_write", 4)}, pages: 1,
			// A list of vectors that is the memory itself: most are of length 0.
			body: code(fill, loop(code(i32(1), i32(0), i32(size/8), i32(0), call(0), drop)))},
		"yielding without end": {imports: []tinyImport{wasiImport("sched_yield", 0)}, body: loop(code(call(0), drop))},
		"a loop":               {body: forever},
		"a call tree":          {body: code(call(0), call(0))},
	} {
		t.Run(name, func(t *testing.T) {
			sp := spec(name, module.bytes())
			require.NoError(t, s.Start(withTimeout(t), sp))
			began := time.Now()
			require.NoError(t, s.Stop(withTimeout(t), name, "SIGKILL", 0))
			require.Less(t, time.Since(began), killWithin)
			require.NoError(t, s.Destroy(withTimeout(t), name))
		})
	}
}

func TestOneCallForMuchOutputIsInterrupted(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	// 14 vectors, each of 12 MiB, over and over, in one call: 1 GiB of output.
	var vectors []byte
	for range 14 {
		vectors = append(vectors, 0, 0, 0, 0, 0, 0, 0xc0, 0)
	}
	module := tiny{imports: []tinyImport{wasiImport("fd_write", 4)}, pages: 1, data: vectors,
		body: code(i32(12*16), growMemory, drop, loop(code(i32(1), i32(0), i32(14), i32(1024), call(0), drop)))}
	sp := spec("flood", module.bytes())
	base := filepath.Join(t.TempDir(), "task")
	sp.Logs = workload.Logs{StdoutPath: base + ".stdout", StderrPath: base + ".stderr", MaxFiles: 2, MaxFileBytes: megabyte}
	require.NoError(t, s.Start(withTimeout(t), sp))
	began := time.Now()
	require.NoError(t, s.Stop(withTimeout(t), "flood", "SIGTERM", 0))
	require.Less(t, time.Since(began), killWithin)
	result, err := s.Wait(withTimeout(t), "flood")
	require.NoError(t, err)
	require.Equal(t, &structs.ExitResult{ExitCode: 143, Signal: 15}, result)
}

func TestTheNumberOfProgramsIsBounded(t *testing.T) {
	s := newRuntime(t, wasi.Config{MaxPrograms: 2})
	module := tiny{body: forever}.bytes()
	require.NoError(t, s.Start(withTimeout(t), spec("a", module)))
	require.NoError(t, s.Start(withTimeout(t), spec("b", module)))
	err := s.Start(withTimeout(t), spec("c", module))
	require.Equal(t, abi.ResourceExhausted, abi.CodeOf(err))
	require.True(t, abi.IsRecoverable(err))
	require.NoError(t, s.Stop(withTimeout(t), "a", "", 0))
	require.Error(t, s.Start(withTimeout(t), spec("c", module)), "ended ones count until they are destroyed")
	require.NoError(t, s.Destroy(withTimeout(t), "a"))
	require.NoError(t, s.Start(withTimeout(t), spec("c", module)))
}

func TestClosingEndsEveryProgramAndWaits(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	module := tiny{body: forever}.bytes()
	for i := range 20 {
		require.NoError(t, s.Start(withTimeout(t), spec(fmt.Sprint(i), module)))
	}
	require.NoError(t, s.Close())
	list, err := s.List(withTimeout(t))
	require.NoError(t, err)
	require.Len(t, list, 20)
	for _, status := range list {
		require.Equal(t, workload.Exited, status.State)
		require.Equal(t, &structs.ExitResult{ExitCode: 137, Signal: 9, Err: "the supervisor was shut down"}, status.Exit)
	}
	err = s.Start(withTimeout(t), spec("late", module))
	require.Equal(t, abi.Unavailable, abi.CodeOf(err))
}

func TestProgramsThatEndedHoldNoDescriptors(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	guest := guestbuild.Program(t, workloadtest.GuestPackage)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "in"), []byte("x"), 0o644))
	one := func(id string, verb ...string) {
		sp := spec(id, guest, verb...)
		base := filepath.Join(dir, id)
		sp.Logs = workload.Logs{StdoutPath: base + ".stdout", StderrPath: base + ".stderr", MaxFiles: 2, MaxFileBytes: megabyte}
		sp.WASI.Mounts = []workload.Mount{{GuestPath: "/data", HostPath: dir}}
		require.NoError(t, s.Start(withTimeout(t), sp))
		if verb[0] == "sleep" {
			require.NoError(t, s.Stop(withTimeout(t), id, "", 0))
		}
		_, err := s.Wait(withTimeout(t), id)
		require.NoError(t, err)
		bad := spec(id+"-bad", guest, verb...)
		bad.Logs, bad.WASI.Mounts = sp.Logs, append(sp.WASI.Mounts, workload.Mount{GuestPath: "/b", HostPath: dir + "/missing"})
		require.Error(t, s.Start(withTimeout(t), bad))
	}
	for i := range 10 {
		one(fmt.Sprintf("cat-%d", i), "cat", "/data/in")
		one(fmt.Sprintf("sleep-%d", i), "sleep")
	}
	require.Empty(t, openBelow(t, dir))
}

// openBelow returns what the process has open below dir.
func openBelow(t testing.TB, dir string) []string {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	var open []string
	for _, fd := range fds {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(target, dir) {
			open = append(open, target)
		}
	}
	return open
}

func TestStatsCountWhatWasUsed(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	module := tiny{pages: 1, body: code(i32(2), growMemory, drop, forever)}.bytes()
	require.NoError(t, s.Start(withTimeout(t), spec("a", module)))
	require.Eventually(t, func() bool {
		stats, err := s.Stats(withTimeout(t), "a")
		require.NoError(t, err)
		return *stats.MemoryBytes == 3*65536
	}, time.Minute, time.Millisecond)
	require.NoError(t, s.Stop(withTimeout(t), "a", "", 0))
	stats, err := s.Stats(withTimeout(t), "a")
	require.NoError(t, err)
	require.Zero(t, *stats.MemoryBytes, "it has ended")
	require.EqualValues(t, 3*65536, *stats.MemoryMaxBytes)
	require.NotNil(t, stats.CPUTotal)
	require.NotZero(t, *stats.CPUTotal)
}

func TestManyKindsOfProgramsComeAndGo(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 20 {
				// 20 modules, more than are kept when idle.
				module := tiny{body: code(i32(int32(i)), drop)}.bytes()
				id := fmt.Sprintf("%d-%d", worker, i)
				if err := s.Start(withTimeout(t), spec(id, module)); err != nil {
					t.Error(err)
					continue
				}
				if result, err := s.Wait(withTimeout(t), id); err != nil || !result.Successful() {
					t.Error(result, err)
				}
				if err := s.Destroy(withTimeout(t), id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// Programs that compute without end, of different shares, on one processor.
func TestProgramsComputeByTheirShares(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // one is left to all else
	s := newRuntime(t, wasi.Config{})
	for id, mhz := range map[string]uint64{"small": 100, "large": 400} {
		sp := spec(id, tiny{body: forever}.bytes())
		sp.CPUMHz = mhz
		require.NoError(t, s.Start(withTimeout(t), sp))
	}
	used := func(id string) time.Duration {
		stats, err := s.Stats(withTimeout(t), id)
		require.NoError(t, err)
		return *stats.CPUTotal
	}
	// The first to start is ahead of the other until that has had as much by its share.
	require.Eventually(t, func() bool {
		return used("large") > 4*used("small") && used("small") > 0 || used("large") > time.Second
	}, time.Minute, time.Millisecond)
	small, large := used("small"), used("large")
	// Where the machine takes its processor from the one that has a turn, that counts as used, and
	// is made up for: what holds is the ratio over a time that is long beside such a gap.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		small, large := used("small")-small, used("large")-large
		require.Greater(c, small+large, 500*time.Millisecond)
		require.InDelta(c, 4, large.Seconds()/small.Seconds(), 1, "100 MHz: %v, 400 MHz: %v", small, large)
	}, time.Minute, time.Millisecond)
	for _, id := range []string{"small", "large"} {
		require.NoError(t, s.Destroy(withTimeout(t), id))
	}
}
