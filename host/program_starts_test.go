package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/racetest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// startedPrograms are what is measured: at most so much processor time for a start, which are
// 1,000 a second on two processors, and 500.
var startedPrograms = []struct {
	name   string
	module func(t testing.TB) []byte
	goal   time.Duration
}{
	{"C", func(t testing.TB) []byte { return guestbuild.CProgram(t, "guest-examples/programs/columns") }, 2 * time.Millisecond},
	{"Go", func(t testing.TB) []byte { return guestbuild.Program(t, "guest-examples/programs/wordcount") }, 4 * time.Millisecond}, // 3 MB
}

// programStarts starts a program by the driver wasi, as tasks that each write to files of their own.
type programStarts struct {
	world  *world
	plugin *host.Plugin
	module string // its path
	tasks  atomic.Int64
}

// newProgramStarts has started one, whose file the host need not read again.
func newProgramStarts(t testing.TB, module []byte) *programStarts {
	t.Helper()
	dir := t.TempDir()
	s := &programStarts{world: newWorld(t, host.Limits{}), module: filepath.Join(dir, "program.wasm")}
	require.NoError(t, os.WriteFile(s.module, module, 0o600))
	written := time.Now()
	s.plugin = s.world.ready(t, guestbuild.Plugin(t, "guest-examples/drivers/wasi"), host.Grants{Wasm: host.WasmGrant{Directories: []string{dir}}})
	scope := s.task(t)
	require.NoError(t, s.one(t.Context(), scope)) // compiled
	require.Eventually(t, func() bool { return time.Since(written) > 1100*time.Millisecond }, testTimeout, 10*time.Millisecond)
	require.NoError(t, s.one(t.Context(), scope)) // of a file that has not changed for a second
	return s
}

// task is one with directories.
func (s *programStarts) task(t testing.TB) *host.TaskScope {
	t.Helper()
	scope := taskScope(t)
	d := scope.Config.Directories
	d.Local, d.Secrets = filepath.Join(d.Task, "local"), filepath.Join(d.Task, "secrets")
	require.NoError(t, os.Mkdir(d.Local, 0o700))
	require.NoError(t, os.Mkdir(d.Secrets, 0o700))
	return scope
}

// one is a task's whole life.
func (s *programStarts) one(ctx context.Context, scope *host.TaskScope) error {
	scope.Config.Id = fmt.Sprintf("alloc/web/%d", s.tasks.Add(1))
	if _, err := start(ctx, s.plugin, scope, map[string]any{"module": s.module}); err != nil {
		return err
	}
	if _, err := s.world.workloads.Wait(ctx, scope.Config.Id); err != nil {
		return err
	}
	return s.world.workloads.Destroy(ctx, scope.Config.Id)
}

// processorTime is what this process has used of it.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var used unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkProgramStarts is a task's whole life with the driver wasi, from the call of the plugin
// to the program's end, on two processors at a time.
func BenchmarkProgramStarts(b *testing.B) {
	for _, program := range startedPrograms {
		b.Run(program.name, func(b *testing.B) {
			s := newProgramStarts(b, program.module(b))
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
			b.ResetTimer()
			began := processorTime(b)
			b.RunParallel(func(pb *testing.PB) {
				scope := s.task(b)
				for pb.Next() {
					if err := s.one(b.Context(), scope); err != nil {
						b.Error(err)
						return
					}
				}
			})
			used := processorTime(b) - began
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "starts/s")
			b.ReportMetric(used.Seconds()*1000/float64(b.N), "ms-cpu/start")
		})
	}
}

// What else the machine does makes a start dearer, too, so that the best of some is taken.
func TestAStartOfAProgramTakesLittleProcessorTime(t *testing.T) {
	if racetest.On {
		t.Skip("the race detector takes a multiple of it")
	}
	for _, program := range startedPrograms {
		t.Run(program.name, func(t *testing.T) {
			const starts = 25
			s := newProgramStarts(t, program.module(t))
			scope, best := s.task(t), time.Hour
			for range 4 {
				began := processorTime(t)
				for range starts {
					require.NoError(t, s.one(t.Context(), scope))
				}
				best = min(best, (processorTime(t)-began)/starts)
			}
			require.Less(t, best, program.goal)
		})
	}
}
