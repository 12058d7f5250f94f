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
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/racetest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/workload/wasi"
	"github.com/wasmnode/wasmnode/workload/workloadtest"
)

// BenchmarkServe is a request of HTTP to the same Go program, on connections that are kept:
// as a WASI program, and as a process. The processor time is of the clients, too.
func BenchmarkServe(b *testing.B) {
	b.Run("WASI", func(b *testing.B) {
		s := newRuntime(b, wasi.Config{})
		sp, at := serving(b, "web", guestbuild.Program(b, "guest-examples/programs/web"))
		require.NoError(b, s.Start(withTimeout(b), sp))
		used := ask(b, at)
		reportUsed(b, used)
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
		end := sync.OnceFunc(func() {
			_ = server.Process.Kill()
			_ = server.Wait()
		})
		defer end()
		used := ask(b, netip.MustParseAddrPort(l.Addr().String()))
		end()
		reportUsed(b, used+server.ProcessState.UserTime()+server.ProcessState.SystemTime())
	})
}

func reportUsed(b *testing.B, used time.Duration) {
	b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-us/request")
}

// ask sends the requests, from four clients at a time for each processor, and returns the processor
// time that this process has used for them.
func ask(b *testing.B, at netip.AddrPort) time.Duration {
	require.Equal(b, "hello\n", get(b, at, "/"))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	b.SetParallelism(4)
	b.ResetTimer()
	began := processorTime(b)
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
	used := processorTime(b) - began
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	return used
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
			measure := newIdlePrograms(b, guestbuild.Program(b, program.of), program.ready, program.args...)
			for b.Loop() {
				b.ReportMetric(measure(100), "KiB/program")
			}
		})
	}
}

// A node has thousands of programs that wait: one takes half a MiB at most.
func TestAnIdleGoProgramTakesLittleMemory(t *testing.T) {
	if racetest.On {
		t.Skip("the race detector takes a multiple of it")
	}
	measure := newIdlePrograms(t, guestbuild.Program(t, workloadtest.GuestPackage), "ready", "sleep")
	require.LessOrEqual(t, min(measure(50), measure(50)), 512.0, "KiB") // what else this process does is in one of them
}

// newIdlePrograms returns what measures how many KiB each of so many programs takes once it has
// said that it is ready.
func newIdlePrograms(t testing.TB, module []byte, ready string, args ...string) func(programs int) float64 {
	t.Helper()
	s := newRuntime(t, wasi.Config{})
	start := func(i int) {
		sp, _ := serving(t, fmt.Sprint(i), module, args...)
		sp.MemoryMaxBytes = 64 * megabyte
		require.NoError(t, s.Start(withTimeout(t), sp))
		for !strings.Contains(logged(t, sp), ready) {
			runtime.Gosched()
		}
	}
	start(0) // the compiled code is shared
	return func(programs int) float64 {
		before := atRest(t)
		for i := range programs {
			start(i + 1)
		}
		taken := atRest(t) - before
		for i := range programs {
			require.NoError(t, s.Destroy(withTimeout(t), fmt.Sprint(i+1)))
		}
		return float64(taken) / float64(programs)
	}
}

// atRest is how much memory this process has for itself, in KiB, once it does not get less.
func atRest(b testing.TB) (sum int) {
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
func private(b testing.TB) (sum int) {
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
