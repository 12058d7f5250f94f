package wasi_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

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
				sp.MemoryMaxBytes = 64 * megabyte
				sp.Logs = workload.Logs{StdoutPath: filepath.Join(dir, "stdout"), StderrPath: filepath.Join(dir, "stderr"), MaxFiles: 2, MaxFileBytes: megabyte}
				if result := run(b, s, sp); !result.Successful() {
					b.Fatal(result)
				}
				require.NoError(b, s.Destroy(b.Context(), sp.ID))
			}
			one()
			b.ReportAllocs()
			for b.Loop() {
				one()
			}
		})
	}
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
