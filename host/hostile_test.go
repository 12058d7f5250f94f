package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/workload"
)

// endless are the ways to stay in a call for good, as bodies of an operation. Those
// that call fnCount+100 call themselves.
var endless = []struct {
	name string
	body []byte
}{
	{"empty loop", modtest.Code(modtest.Loop(), modtest.I32Const(0))},
	{"nested loops", modtest.Code(modtest.Loop(modtest.Times(1<<30, 1, modtest.Times(1<<30, 2))), modtest.I32Const(0))},
	{"loop by br_table", modtest.Code([]byte{0x03, 0x40}, modtest.I32Const(0), []byte{0x0e, 1, 0, 0, 0x0b}, modtest.I32Const(0))},
	{"exponential calls", modtest.Code(
		modtest.Get(0), modtest.I32Const(60), []byte{0x4a, 0x04, 0x40}, modtest.I32Const(0), modtest.Return, []byte{0x0b},
		modtest.Get(0), modtest.I32Const(1), modtest.Add, modtest.Call(fnCount+100), modtest.Drop,
		modtest.Get(0), modtest.I32Const(1), modtest.Add, modtest.Call(fnCount+100))},
	{"large fills", modtest.Code(modtest.Loop(modtest.I32Const(0), modtest.I32Const(0), modtest.I32Const(64<<20), modtest.Fill), modtest.I32Const(0))},
	{"large copies", modtest.Code(modtest.Loop(modtest.I32Const(0), modtest.I32Const(32<<20), modtest.I32Const(32<<20), modtest.Copy), modtest.I32Const(0))},
	{"sleeping", modtest.Code(modtest.Loop(sleepLong()), modtest.I32Const(0))},
	{"reading stdin", modtest.Code(modtest.Loop(modtest.I32Const(0), modtest.I32Const(inputAt), modtest.I32Const(1), modtest.I32Const(inputAt+8), modtest.Call(fnRead), modtest.Drop), modtest.I32Const(0))},
	{"logging", modtest.Code(modtest.Loop(logLine(3, 4, 0)), modtest.I32Const(0))},
	{"events", modtest.Code(modtest.Loop(modtest.I32Const(0), modtest.I32Const(0), modtest.Call(fnEvent), modtest.Drop), modtest.I32Const(0))},
	{"growing memory", modtest.Code(modtest.Loop(modtest.I32Const(1), modtest.Grow, modtest.Drop), modtest.I32Const(0))},
	{"fetching input", modtest.Code(modtest.Loop(modtest.I32Const(inputAt), modtest.Call(fnInput)), modtest.I32Const(0))},
}

// staying is a guest that stays in its fingerprint.
func staying(body []byte) []byte {
	m := faulty(body)
	m.Pages = 1024
	return m.Bytes()
}

func TestEveryEndlessGuestIsInterrupted(t *testing.T) {
	for _, e := range endless {
		t.Run(e.name, func(t *testing.T) {
			p := newWorld(t, host.Limits{}).ready(t, staying(e.body), host.Grants{})
			for range 2 {
				err := outOfTime(t, p, 100*time.Millisecond)
				var fault *host.FaultError
				require.ErrorAs(t, err, &fault)
				require.Equal(t, host.FaultTimeout, fault.Kind, "%v", err)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			_, err := p.Call(t.Context(), abi.OpDriverStartTask, nil, nil)
			require.NoError(t, err, "the next call works")
		})
	}
}

// outOfTime makes a call whose time ends so long after it is at work: were it counted from
// the start, a busy machine could let it pass before the plugin has the call.
func outOfTime(t *testing.T, p *host.Plugin, after time.Duration) error {
	t.Helper()
	ctx := deadline{t.Context(), make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		_, err := p.Call(ctx, abi.OpDriverFingerprint, []byte("hello"), nil)
		ended <- err
	}()
	require.Eventually(t, func() bool { return p.Stats().AtWork == 1 }, testTimeout, time.Millisecond)
	time.AfterFunc(after, func() { close(ctx.passed) })
	return <-ended
}

// deadline is a context whose deadline passes when a test says so.
type deadline struct {
	context.Context
	passed chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.passed }

func (d deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// lateness calls a guest that stays, and returns how long after its deadline each
// call returned, sorted.
func lateness(t testing.TB, p *host.Plugin, calls int) []time.Duration {
	t.Helper()
	var late []time.Duration
	for range calls {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := p.Call(ctx, abi.OpDriverFingerprint, []byte("hello"), nil)
		deadline, _ := ctx.Deadline()
		late = append(late, time.Since(deadline))
		cancel()
		var fault *host.FaultError
		if !errors.As(err, &fault) || fault.Kind != host.FaultTimeout {
			t.Fatal(err)
		}
	}
	slices.Sort(late)
	return late
}

// BenchmarkKill measures how late a call returns that its deadline ends.
func BenchmarkKill(b *testing.B) {
	for _, e := range endless {
		b.Run(e.name, func(b *testing.B) {
			p := newWorld(b, host.Limits{}).ready(b, staying(e.body), host.Grants{})
			for b.Loop() {
			}
			late := lateness(b, p, 50)
			b.ReportMetric(late[len(late)/2].Seconds()*1e3, "p50-ms")
			b.ReportMetric(late[len(late)-1].Seconds()*1e3, "max-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// A guest that spins must not hold the collector, and with it the whole process.
func TestASpinningGuestDoesNotDelayTheGarbageCollector(t *testing.T) {
	p := newWorld(t, host.Limits{}).ready(t, staying(endless[0].body), host.Grants{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { _, _ = p.Call(ctx, abi.OpDriverFingerprint, nil, nil) })
	}
	var before, after debug.GCStats
	debug.ReadGCStats(&before)
	for range 5 {
		runtime.GC()
	}
	debug.ReadGCStats(&after)
	cancel()
	wg.Wait()
	n := int(min(after.NumGC-before.NumGC, int64(len(after.Pause))))
	pauses := slices.Sorted(slices.Values(after.Pause[:n]))
	// Without interruption the pause lasts as long as the guest, which is for good. How
	// long it is with it is a matter of who else has the machine's processors.
	require.Less(t, pauses[len(pauses)/2], 5*time.Second, "%v", pauses)
}

// spinner is a WASI command that runs until it is killed.
func spinner() []byte {
	return (&modtest.Module{Pages: 1, Funcs: []modtest.Func{{Export: "_start", Body: modtest.Loop()}}}).Bytes()
}

// While each hostile guest does its worst, a neighbour serves and a task runs on.
func TestAHostilePluginDoesNotDisturbOtherPlugins(t *testing.T) {
	w := newWorld(t, host.Limits{Instances: 2})
	good := w.ready(t, guest(nil, map[string][]byte{abi.OpDriverFingerprint: echo()}).Bytes(), host.Grants{})
	task := taskScope(t)
	put(t, task.Config.Directories.Task, "local/app.wasm", spinner())
	code, _ := decodeAnswer(t, started(t, w, task, host.WasmGrant{}, &wasmnodev1.WasmStartRequest{Module: "local/app.wasm"}))
	require.Zero(t, code)

	bodies := map[string][]byte{}
	for _, e := range endless {
		bodies[e.name] = e.body
	}
	for _, f := range faults {
		bodies[f.name] = f.body
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			hostile := w.ready(t, staying(body), host.Grants{})
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() { _, _ = hostile.Call(ctx, abi.OpDriverFingerprint, []byte("hello"), nil) })
			}
			for range 10 {
				out, err := good.Call(t.Context(), abi.OpDriverFingerprint, []byte("x"), nil)
				require.NoError(t, err)
				require.Equal(t, "x", string(out))
			}
			cancel()
			wg.Wait()
			running, err := w.workloads.List(t.Context())
			require.NoError(t, err)
			require.Len(t, running, 1)
			require.Equal(t, workload.Running, running[0].State)
		})
	}
	require.NoError(t, w.workloads.Stop(t.Context(), task.Config.Id, "SIGKILL", 0))
}

// Plugins are replaced for as long as the node runs: nothing of the old ones stays.
func TestReplacingAPluginLeavesNothingBehind(t *testing.T) {
	if !alone(t) {
		return
	}
	rounds := 200
	if os.Getenv("WASMNODE_SOAK") != "" {
		rounds = 2000
	}
	small := guest(nil, map[string][]byte{abi.OpDriverFingerprint: echo(), abi.OpDriverStartTask: modtest.Unreachable}).Bytes()
	t.Run("small", func(t *testing.T) { replaceMany(t, small, rounds) })
	if !testing.Short() {
		t.Run("Go", func(t *testing.T) { replaceMany(t, guestbuild.Plugin(t, "guest-examples/drivers/mock"), rounds/20) })
	}
}

// alone runs a test in a process of its own, since what other tests have left makes what the process
// holds as large as it likes; it reports whether this is that process.
func alone(t *testing.T) bool {
	t.Helper()
	const env = "WASMNODE_TEST_ALONE"
	if os.Getenv(env) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", fmt.Sprintf("-test.short=%v", testing.Short()))
	cmd.Env = append(os.Environ(), env+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return false
}

// replaceMany loads, uses and releases a plugin so many times.
func replaceMany(t *testing.T, wasm []byte, rounds int) {
	w := newWorld(t, host.Limits{})
	dir := t.TempDir()
	round := func() {
		p, err := w.Load(t.Context(), host.NewSource(wasm))
		require.NoError(t, err)
		require.NoError(t, p.Configure(t.Context(), host.Grants{FS: host.FSGrant{ReadOnly: []string{dir}}}, []byte("{}")))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 3 {
					_, _ = p.Call(context.Background(), abi.OpDriverFingerprint, nil, nil)
					_, _ = p.Call(context.Background(), abi.OpDriverStartTask, nil, nil)
				}
			})
		}
		p.Close()
		wg.Wait()
	}
	for range 5 {
		round()
	}
	before := held(t)
	for range rounds {
		round()
	}
	bound := holdings{before.goroutines, before.files, before.executable + 2, before.resident + 32<<10}
	after := held(t)
	for deadline := time.Now().Add(testTimeout); !after.within(bound) && time.Now().Before(deadline); {
		after = held(t) // the finalizers' goroutine has its turn when it has it
	}
	require.True(t, after.within(bound), "before %+v, after %+v", before, after)
}

// holdings are what the process holds.
type holdings struct {
	goroutines, files, executable int
	resident                      int // KiB
}

// within reports whether these are no more than others.
func (h holdings) within(o holdings) bool {
	return h.goroutines <= o.goroutines && h.files <= o.files && h.executable <= o.executable && h.resident <= o.resident
}

// held returns what the process holds, garbage excepted. The engine frees code by
// finalizers, so that it takes more than one collection.
func held(t *testing.T) (h holdings) {
	t.Helper()
	for range 3 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond) // for the finalizers' goroutine
	}
	debug.FreeOSMemory()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, rss, _ := strings.Cut(string(status), "VmRSS:")
	h.resident, err = strconv.Atoi(strings.Fields(rss)[0])
	require.NoError(t, err)
	h.goroutines, h.files, h.executable = runtime.NumGoroutine(), len(entries), strings.Count(string(maps), " r-xp ")
	return h
}
