package wasi_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/wasi"
	"github.com/wasmnode/wasmnode/workload/workloadtest"
)

// BenchmarkStartToExit is a program's whole life: start, run, wait, destroy, with the
// module compiled already.
func BenchmarkStartToExit(b *testing.B) {
	for _, program := range []struct {
		name   string
		module func() []byte
	}{
		{"tiny", func() []byte { return tiny{pages: 1}.bytes() }},
		{"C", func() []byte { return guestbuild.CProgram(b, "guest-examples/programs/columns") }},
		{"Go", func() []byte { return guestbuild.Program(b, workloadtest.GuestPackage) }},
	} {
		b.Run(program.name, func(b *testing.B) {
			s := newRuntime(b, wasi.Config{})
			module := program.module()
			dir := b.TempDir()
			i := 0
			one := func() {
				i++
				sp := spec(fmt.Sprint(i), module, "exit", "0")
				sp.WASI.Digest = program.name // as the host knows it
				sp.MemoryMaxBytes = 64 * megabyte
				sp.Logs = workload.Logs{StdoutPath: filepath.Join(dir, "stdout"), StderrPath: filepath.Join(dir, "stderr"), MaxFiles: 2, MaxFileBytes: megabyte}
				if result := run(b, s, sp); program.name != "C" && !result.Successful() { // without a file, it says how it is used
					b.Fatal(result)
				}
				require.NoError(b, s.Destroy(b.Context(), sp.ID))
			}
			one()
			b.ReportAllocs()
			began := processorTime(b)
			for b.Loop() {
				one()
			}
			// What the machine's other work takes is not in it.
			b.ReportMetric(float64(processorTime(b)-began)/float64(b.N), "cpu-ns/op")
		})
	}
}

// processorTime is what this process has used of it.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkKillBusyLoop is the time from a kill to the end of a program that computes.
func BenchmarkKillBusyLoop(b *testing.B) {
	s := newRuntime(b, wasi.Config{})
	module := tiny{body: forever}.bytes()
	i := 0
	for b.Loop() {
		b.StopTimer()
		i++
		id := fmt.Sprint(i)
		require.NoError(b, s.Start(b.Context(), spec(id, module)))
		b.StartTimer()
		require.NoError(b, s.Stop(b.Context(), id, "SIGKILL", 0))
		b.StopTimer()
		require.NoError(b, s.Destroy(b.Context(), id))
		b.StartTimer()
	}
}

// Benchmark200ToRunning starts 200 Go programs, one after the other, each with log
// files of its own.
func Benchmark200ToRunning(b *testing.B) {
	s := newRuntime(b, wasi.Config{})
	module := guestbuild.Program(b, workloadtest.GuestPackage)
	require.True(b, run(b, s, spec("compile", module, "exit", "0")).Successful())
	round := 0
	for b.Loop() {
		b.StopTimer()
		dir := b.TempDir()
		round++
		b.StartTimer()
		for i := range 200 {
			sp := spec(fmt.Sprintf("%d-%d", round, i), module, "sleep")
			base := filepath.Join(dir, fmt.Sprint(i))
			sp.Logs = workload.Logs{StdoutPath: base + ".stdout", StderrPath: base + ".stderr", MaxFiles: 2, MaxFileBytes: megabyte}
			require.NoError(b, s.Start(b.Context(), sp))
		}
		b.StopTimer()
		for i := range 200 {
			require.NoError(b, s.Destroy(b.Context(), fmt.Sprintf("%d-%d", round, i)))
		}
		b.StartTimer()
	}
}
