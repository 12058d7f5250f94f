package host_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/importtest"
	"github.com/wasmnode/wasmnode/internal/modtest"
)

// loopingPlugin is a guest that calls one import for ever in start_task.
type loopingPlugin struct {
	importtest.Loop
	message []byte
	silent  string // the address of a server that says nothing
}

func (l loopingPlugin) bytes() []byte {
	m := guest(nil, map[string][]byte{abi.OpDriverStartTask: append(l.Body(fnCount), modtest.I32Const(0)...)})
	m.Imports = append(m.Imports, l.Imports()...)
	m.Data = append(append(m.Data, l.Data()...), modtest.Data{Offset: importtest.MessageAt, Bytes: l.message})
	m.Pages = importtest.Pages
	return m.Bytes()
}

// loopsAroundEveryImport returns guests for everything that a plugin may import, but for what
// ends it by itself.
func loopsAroundEveryImport(t testing.TB) (loops []loopingPlugin) {
	t.Helper()
	ends := []string{"proc_exit", abi.ModuleABI + "." + abi.FuncOutput}
	fields := &wasmnodev1.LogFields{}
	for range 32 {
		fields.Fields = append(fields.Fields, &wasmnodev1.LogField{Key: strings.Repeat("k", 1000), Value: strings.Repeat("\x01", 1000)})
	}
	silent := listenSilently(t)
	requests := map[string]interface{ MarshalVT() ([]byte, error) }{
		abi.ModuleWasm + "." + abi.FuncWasmStart:           &wasmnodev1.WasmStartRequest{Module: "module.wasm"},
		abi.ModuleProcess + "." + abi.FuncProcessStart:     &wasmnodev1.ProcessStartRequest{Command: "/bin/true"},
		abi.ModuleProcess + "." + abi.FuncProcessRun:       &wasmnodev1.ProcessRunRequest{Command: "/bin/sh", Args: []string{"-c", "sleep 1000"}},
		abi.ModuleTask + "." + abi.FuncTaskEvent:           &wasmnodev1.TaskEvent{TaskId: "alloc/web/1", Message: strings.Repeat("m", 30<<10)},
		abi.ModuleProcess + "." + abi.FuncProcessSupport:   &wasmnodev1.ProcessSupportRequest{},
		abi.ModuleLog + "." + abi.FuncLogWrite:             fields,
		abi.ModuleNet + "." + abi.FuncNetDial:              &wasmnodev1.NetDialRequest{Address: silent},
		abi.ModuleHTTP + "." + abi.FuncHTTPRequest:         &wasmnodev1.HttpRequest{Method: "GET", Url: "http://" + silent},
		abi.ModuleKV + "." + abi.FuncKVGet:                 &wasmnodev1.KvGetRequest{Key: "k"},
		abi.ModuleKV + "." + abi.FuncKVSet:                 &wasmnodev1.KvSetRequest{Key: "k", Value: make([]byte, 64<<10)},
		abi.ModuleKV + "." + abi.FuncKVDelete:              &wasmnodev1.KvDeleteRequest{Key: "k"},
		abi.ModuleKV + "." + abi.FuncKVList:                &wasmnodev1.KvListRequest{},
		abi.ModuleStream + "." + abi.FuncStreamPoll:        &wasmnodev1.StreamPollRequest{TimeoutMs: -1},
		abi.ModuleWorkload + "." + abi.FuncWorkloadSignal:  &wasmnodev1.WorkloadSignalRequest{Signal: "SIGUSR1"},
		abi.ModuleWorkload + "." + abi.FuncWorkloadStop:    &wasmnodev1.WorkloadStopRequest{Signal: "SIGUSR1", TimeoutMs: 1000_000},
		abi.ModuleWorkload + "." + abi.FuncWorkloadWait:    &wasmnodev1.WorkloadWaitRequest{TimeoutMs: -1},
		abi.ModuleWorkload + "." + abi.FuncWorkloadStats:   &wasmnodev1.WorkloadStatsRequest{},
		abi.ModuleWorkload + "." + abi.FuncWorkloadInspect: &wasmnodev1.WorkloadInspectRequest{},
		abi.ModuleWorkload + "." + abi.FuncWorkloadExec:    &wasmnodev1.WorkloadExecRequest{Command: "/bin/sleep", Args: []string{"1000"}},
	}
	for _, module := range slices.Sorted(maps.Keys(host.Importable)) {
		funcs := host.Importable[module]
		for _, name := range slices.Sorted(maps.Keys(funcs)) {
			if slices.Contains(ends, name) || slices.Contains(ends, module+"."+name) {
				continue
			}
			i := modtest.Import{Module: module, Name: name, Type: typeOf(funcs[name])}
			for _, l := range importtest.LoopsOf(i) {
				behindTaskFiles(l.Args, name)
				loops = append(loops, loopingPlugin{Loop: l, silent: silent})
			}
			if r, ok := requests[module+"."+name]; ok {
				message, err := r.MarshalVT()
				require.NoError(t, err)
				l := importtest.LoopWith(i, len(message))
				if module == abi.ModuleLog {
					l = importtest.LoopsOf(i)[0]
					l.Args[4] = int64(len(message))
				}
				loops = append(loops, loopingPlugin{l, message, silent})
			}
		}
	}
	return loops
}

// behindTaskFiles moves descriptors of opened files behind those of the task's directories, which
// a driver has besides what was granted.
func behindTaskFiles(args []int64, name string) {
	if (strings.HasPrefix(name, "fd_") || strings.HasPrefix(name, "sock_")) && (args[0] == 4 || args[0] == 5) {
		args[0] += 2
	}
}

// typeOf reads a signature such as "iI>i".
func typeOf(signature string) (t modtest.Type) {
	params, results, _ := strings.Cut(signature, ">")
	types := map[rune]byte{'i': modtest.I32, 'I': modtest.I64}
	for _, c := range params {
		t.Params = append(t.Params, types[c])
	}
	for _, c := range results {
		t.Results = append(t.Results, types[c])
	}
	return t
}

// grantedFiles makes the directory that looping guests see, with a large file and a
// directory of many.
func grantedFiles(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	big, err := os.Create(filepath.Join(dir, importtest.File))
	require.NoError(t, err)
	require.NoError(t, big.Truncate(1<<30))
	require.NoError(t, big.Close())
	require.NoError(t, os.Mkdir(filepath.Join(dir, importtest.Directory), 0o755))
	for i := range 5000 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, importtest.Directory, fmt.Sprintf("%0200d", i)), nil, 0o644))
	}
	return dir
}

// late is how late a call may return here: without a clock in a host function, a guest that
// loops around it runs for minutes; the machine may do other work at the same time. How late
// calls are is measured by BenchmarkKillInImports.
const late = 20 * time.Second

// Fuel counts instructions, of which a loop around a slow host function has few: each of
// them has to look at the clock.
func TestNoImportHoldsAGuestPastItsDeadline(t *testing.T) {
	dir := grantedFiles(t)
	w := newWorld(t, host.Limits{})
	for n, l := range loopsAroundEveryImport(t) {
		t.Run(fmt.Sprintf("%s.%s/%d", l.Import.Module, l.Name, n), func(t *testing.T) {
			t.Logf("%s: %v after its deadline", l.Name, killIn(t, w, dir, l))
		})
	}
}

// killIn returns how long after its deadline a call of the guest returns.
func killIn(t testing.TB, w *world, dir string, l loopingPlugin) time.Duration {
	t.Helper()
	p := w.ready(t, l.bytes(), host.Grants{
		KV: host.KVGrant{Enabled: true},
		FS: host.FSGrant{ReadWrite: []string{dir}}, Process: host.ProcessGrant{Commands: []string{"*"}, Helpers: []host.HelperGrant{anyScript}},
		Net: host.NetGrant{Addresses: []string{"127.0.0.1:*"}}, HTTP: requestsTo("http://" + l.silent),
	})
	scope := taskScope(t)
	module := filepath.Join(scope.Config.Directories.Task, "module.wasm")
	require.NoError(t, os.WriteFile(module, nil, 0o644))
	require.NoError(t, os.Truncate(module, 64<<20))
	if l.Import.Module == abi.ModuleWorkload { // which there is, and does not end by itself
		endure(t, w, scope, "")
	}
	ctx := deadline{t.Context(), make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		_, err := p.Call(w.recordingEvents(ctx), abi.OpDriverStartTask, make([]byte, 1<<20), scope)
		ended <- err
	}()
	begun := filepath.Join(dir, importtest.Begun)
	require.Eventually(t, func() bool { return os.Remove(begun) == nil || len(ended) > 0 }, testTimeout, time.Millisecond)
	began := time.Now().Add(20 * time.Millisecond)
	passes := time.AfterFunc(time.Until(began), func() { close(ctx.passed) })
	defer passes.Stop()
	var took time.Duration
	select {
	case err := <-ended:
		took = time.Since(began)
		var fault *host.FaultError
		require.ErrorAs(t, err, &fault)
		if len(l.Args) == 0 || l.Args[0] != -1 { // what is no address ends it before
			require.Equal(t, host.FaultTimeout, fault.Kind, "%v", err)
		}
	case <-time.After(20*time.Millisecond + late):
		t.Fatalf("it runs %v after its deadline", late)
	}
	if err := w.workloads.Destroy(context.Background(), scope.Config.Id); err != nil {
		require.True(t, errors.Is(err, abi.ErrTaskNotFound), "%v", err)
	}
	return took
}

// BenchmarkKillInImports measures the latest of ten calls for each import.
func BenchmarkKillInImports(b *testing.B) {
	dir := grantedFiles(b)
	w := newWorld(b, host.Limits{})
	for n, l := range loopsAroundEveryImport(b) {
		module, _, _ := strings.Cut(l.Import.Module, "/")
		b.Run(fmt.Sprintf("%s.%s/%d", module, l.Name, n), func(b *testing.B) {
			var most time.Duration
			for range 10 {
				most = max(most, killIn(b, w, dir, l))
			}
			for b.Loop() {
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(most.Seconds()*1e3, "max-ms-late")
		})
	}
}

// The page names every function that is linked, once, and none that is not.
func TestThePageHasTheBoundOfEveryImport(t *testing.T) {
	page, err := os.ReadFile("../abi/ABI.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "### The bound of each host call\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	row := regexp.MustCompile("(?m)^\\| (?:`([^`]+)`)? ?\\| (`[^|]+`) \\| [^|]+ \\|$")
	var module string
	var listed, linked []string
	for _, m := range row.FindAllStringSubmatch(table, -1) {
		module = cmp.Or(m[1], module)
		for name := range strings.SplitSeq(m[2], ", ") {
			listed = append(listed, module+"."+strings.Trim(name, "`"))
		}
	}
	for module, funcs := range host.Importable {
		for name := range funcs {
			linked = append(linked, module+"."+name)
		}
	}
	require.ElementsMatch(t, linked, listed)
}
