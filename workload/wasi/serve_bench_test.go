package wasi_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/workload/wasi"
	"github.com/wasmnode/wasmnode/workload/workloadtest"
)

// BenchmarkServe is a request of HTTP to the same Go program, on connections that are kept:
// as a WASI program, and as a process.
func BenchmarkServe(b *testing.B) {
	b.Run("WASI", func(b *testing.B) {
		s := newRuntime(b, wasi.Config{})
		sp, at := serving(b, "web", guestbuild.Program(b, "guest-examples/programs/web"))
		require.NoError(b, s.Start(withTimeout(b), sp))
		ask(b, at)
		require.NoError(b, s.Destroy(withTimeout(b), "web"))
	})
	b.Run("process", func(b *testing.B) {
		program := filepath.Join(b.TempDir(), "web")
		build := exec.Command("go", "build", "-o", program, "./guest-examples/programs/web")
		build.Dir = "../.."
		out, err := build.CombinedOutput()
		require.NoError(b, err, string(out))
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(b, err)
		defer l.Close()
		f, err := l.(*net.TCPListener).File()
		require.NoError(b, err)
		server := exec.Command(program)
		server.ExtraFiles = []*os.File{f} // its descriptor 3
		require.NoError(b, server.Start())
		defer func() {
			_ = server.Process.Kill()
			_ = server.Wait()
		}()
		ask(b, netip.MustParseAddrPort(l.Addr().String()))
	})
}

// ask sends the requests, from four clients at a time for each processor.
func ask(b *testing.B, at netip.AddrPort) {
	require.Equal(b, "hello\n", get(b, at, "/"))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	b.SetParallelism(4)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			answer, err := client.Get(fmt.Sprintf("http://%s/", at))
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

// BenchmarkIdleMemory is what each of many idle Go programs takes of memory that it does not
// share, of the programs' memories and of this process.
func BenchmarkIdleMemory(b *testing.B) {
	for _, program := range []struct {
		name, of string
		args     []string
		ready    string
	}{
		{"sleeps", workloadtest.GuestPackage, []string{"sleep"}, "ready"},
		{"serves", "guest-examples/programs/web", nil, "serving"},
	} {
		b.Run(program.name, func(b *testing.B) {
			const programs = 100
			s := newRuntime(b, wasi.Config{})
			module := guestbuild.Program(b, program.of)
			start := func(i int) {
				sp, _ := serving(b, fmt.Sprint(i), module, program.args...)
				sp.MemoryMaxBytes = 64 * megabyte
				require.NoError(b, s.Start(withTimeout(b), sp))
				for !strings.Contains(logged(b, sp), program.ready) {
					runtime.Gosched()
				}
			}
			start(0) // the compiled code is shared
			for b.Loop() {
				before := atRest(b)
				for i := range programs {
					start(i + 1)
				}
				b.ReportMetric(float64(atRest(b)-before)/programs, "KiB/program")
				for i := range programs {
					require.NoError(b, s.Destroy(withTimeout(b), fmt.Sprint(i+1)))
				}
			}
		})
	}
}

// atRest is how much memory this process has for itself, in KiB, once it does not get less.
func atRest(b *testing.B) (sum int) {
	debug.FreeOSMemory() // what others left is no program's
	for {
		time.Sleep(200 * time.Millisecond) // a program is at rest after half of that
		now := private(b)
		if sum > 0 && now >= sum {
			return sum
		}
		sum = now
	}
}

// private is how much memory this process has for itself, in KiB.
func private(b *testing.B) (sum int) {
	b.Helper()
	rollup, err := os.ReadFile("/proc/self/smaps_rollup")
	require.NoError(b, err)
	for line := range strings.Lines(string(rollup)) {
		if strings.HasPrefix(line, "Private_") {
			var name string
			var kib int
			_, err := fmt.Sscan(line, &name, &kib)
			require.NoError(b, err)
			sum += kib
		}
	}
	return sum
}
