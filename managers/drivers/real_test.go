package drivers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/internal/catalogtest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload/wasi"
)

// realWorld is a catalog, a manager and a host on a real engine and supervisor.
type realWorld struct {
	*catalogtest.Directory
	t         *testing.T
	manager   *Manager
	workloads *wasi.Runtime
}

func newRealWorld(t *testing.T, config map[string]any, grants host.Grants, change ...func(*Config)) *realWorld {
	t.Helper()
	return newRealWorldThatLooks(t, 0, config, grants, change...)
}

// newRealWorldThatLooks makes one whose directory is looked at so often, without
// notifications; 0: with them.
func newRealWorldThatLooks(t *testing.T, lookEvery time.Duration, config map[string]any, grants host.Grants, change ...func(*Config)) *realWorld {
	t.Helper()
	e := catalogtest.Engine(t)
	w := &realWorld{Directory: &catalogtest.Directory{T: t, Path: t.TempDir()}, t: t}
	w.workloads = wasi.New(wasi.Config{Logger: hclog.NewNullLogger(), Engine: e})
	t.Cleanup(func() { require.NoError(t, w.workloads.Close()) })
	h := host.New(host.Config{
		Logger: hclog.NewNullLogger(), Engine: e, Workloads: w.workloads, Version: "0.0.0",
		OnRefresh: func(plugin string) { w.manager.Refresh(plugin) },
		Limits:    host.Limits{DescribeTime: catalogtest.TestTimeout},
	})
	var err error
	w.Catalog, err = catalog.New(catalog.Config{Dir: w.Path, LookEvery: lookEvery, Logger: hclog.NewNullLogger(), Loader: catalog.HostLoader{Host: h},
		Settings: catalog.Settings{Others: grants, Plugins: map[string]catalog.PluginSettings{
			"mock_driver": {File: "mock.wasm", Config: config, Grants: grants},
		}},
	})
	require.NoError(t, err)
	cfg := Config{
		Catalog: w.Catalog, Workloads: w.workloads, Logger: hclog.NewNullLogger(),
	}
	for _, c := range change {
		c(&cfg)
	}
	w.manager = New(cfg)
	t.Cleanup(func() {
		w.manager.Shutdown()
		w.Catalog.Shutdown()
	})
	return w
}

func (w *realWorld) start() { w.Start(w.manager) }

// task makes a task's directories and its configuration.
func (w *realWorld) task(d *Driver, id string, config map[string]any) *wasmnodev1.TaskConfig {
	w.t.Helper()
	dir := w.t.TempDir()
	cfg := &wasmnodev1.TaskConfig{
		Id: id, AllocId: "alloc", Name: id,
		Resources:   &wasmnodev1.Resources{MemoryBytes: 64 << 20},
		Directories: &wasmnodev1.TaskDirectories{Alloc: dir, Shared: dir + "/shared", Task: dir, Local: dir + "/local", Secrets: dir + "/secrets", Logs: dir + "/logs"},
		StdoutPath:  dir + "/logs/out", StderrPath: dir + "/logs/err",
		Log: &wasmnodev1.LogConfig{MaxFiles: 1, MaxFileSizeBytes: 1 << 20},
	}
	for _, sub := range []string{"shared", "local", "secrets", "logs"} {
		require.NoError(w.t, os.Mkdir(filepath.Join(dir, sub), 0o755))
	}
	var err error
	cfg.DriverConfig, err = d.DecodeConfig(config)
	require.NoError(w.t, err)
	return cfg
}

func mock(t *testing.T) []byte { return guestbuild.Plugin(t, "guest-examples/drivers/mock") }

func (w *realWorld) mustDispense(name string) *Driver {
	w.t.Helper()
	d, err := w.manager.Dispense(name)
	require.NoError(w.t, err)
	return d
}

func TestTheMockDriverServesATaskFromStartToEnd(t *testing.T) {
	w := newRealWorld(t, map[string]any{"attributes": []map[string]any{{"color": "red"}}}, host.Grants{})
	w.Put("mock.wasm", mock(t))
	w.start()
	w.Until("mock.wasm mock_driver 0.1.0 healthy")
	d := w.mustDispense("mock_driver")
	defer d.Release()
	require.Equal(t, "red", d.plugin.info().Attributes["driver.mock_driver.color"])
	ctx := context.Background()

	ended := w.task(d, "ends", map[string]any{"run_for": "30ms", "exit_code": 4})
	h, _, err := d.StartTask(ctx, ended, nil)
	require.NoError(t, err)
	exit, err := d.WaitTask(ctx, ended, h)
	require.NoError(t, err)
	require.Equal(t, &structs.ExitResult{ExitCode: 4}, exit)
	require.NoError(t, d.DestroyTask(ctx, ended, h, false))

	stopped := w.task(d, "stopped", map[string]any{"run_for": "1h", "stop_exit_signal": "15"})
	h, _, err = d.StartTask(ctx, stopped, nil)
	require.NoError(t, err)
	waited := make(chan *structs.ExitResult, 1)
	go func() {
		exit, _ := d.WaitTask(ctx, stopped, h)
		waited <- exit
	}()
	_, err = d.SignalTask(ctx, stopped, h, "SIGHUP")
	require.NoError(t, err)
	stats, err := d.TaskStats(ctx, stopped, h)
	require.NoError(t, err)
	require.NotNil(t, stats.CpuTotalNs)
	_, err = d.StopTask(ctx, stopped, h, "SIGTERM", time.Second)
	require.NoError(t, err)
	require.Equal(t, &structs.ExitResult{Signal: 15}, <-waited)
	require.NoError(t, d.DestroyTask(ctx, stopped, h, false))

	_, err = d.DecodeConfig(map[string]any{"run_fro": "1s"})
	require.EqualError(t, err, `config.run_fro: unknown field, did you mean "run_for"?`)
}

func TestAFaultOfACompiledDriverCountsAgainstItsTask(t *testing.T) {
	w := newRealWorld(t, nil, host.Grants{})
	w.Put("mock.wasm", mock(t))
	w.start()
	d := w.mustDispense("mock_driver")
	defer d.Release()
	for _, how := range []string{"trap", "exit"} {
		bad := w.task(d, how, map[string]any{"start_fault": how})
		_, _, err := d.StartTask(context.Background(), bad, nil)
		require.Equal(t, abi.Unavailable, abi.CodeOf(err), err)
		_, _, err = d.StartTask(context.Background(), bad, nil)
		require.Equal(t, abi.Internal, abi.CodeOf(err), err)
	}
	good := w.task(d, "good", map[string]any{"run_for": 0})
	_, _, err := d.StartTask(context.Background(), good, nil)
	require.NoError(t, err, "the next call works")
	require.Equal(t, []string{"mock.wasm mock_driver 0.1.0 healthy"}, w.Lines())
}

func TestATaskRunsAcrossTheReplacementOfItsPlugin(t *testing.T) {
	w := newRealWorld(t, nil, host.Grants{})
	w.Put("mock.wasm", mock(t))
	w.start()
	old := w.mustDispense("mock_driver")
	cfg := w.task(old, "task", map[string]any{"run_for": "1h", "stop_exit_code": 9})
	ctx := context.Background()
	h, _, err := old.StartTask(ctx, cfg, nil)
	require.NoError(t, err)

	newer := append(mock(t), 0, 5, 4, 'n', 'o', 't', 'e') // another content, the same plugin
	begun := time.Now()
	w.Put("mock.wasm", newer)
	require.Eventually(t, func() bool { return wake.IsClosed(old.Replaced()) }, catalogtest.TestTimeout, 5*time.Millisecond, "%v", w.Lines())
	t.Logf("replaced within %v", time.Since(begun))
	d := w.mustDispense("mock_driver")
	defer d.Release()
	require.NotEqual(t, old.PluginDigest(), d.PluginDigest())
	h, err = d.RecoverTask(ctx, cfg, h, nil)
	require.NoError(t, err)
	old.Release()
	waited := make(chan *structs.ExitResult, 1)
	go func() {
		exit, _ := d.WaitTask(ctx, cfg, h)
		waited <- exit
	}()
	w.Remove("mock.wasm")
	w.Until("mock.wasm mock_driver 0.1.0 removed: its file was removed")
	_, err = d.StopTask(ctx, cfg, h, "", time.Second)
	require.NoError(t, err)
	require.Equal(t, &structs.ExitResult{ExitCode: 9}, <-waited)
}

func TestTheWasiDriverLeavesItsWorkloadToTheHost(t *testing.T) {
	programs := t.TempDir()
	write := func(name string) string {
		path := filepath.Join(programs, name+".wasm")
		require.NoError(t, os.WriteFile(path, guestbuild.Program(t, "guest-examples/programs/"+name), 0o644))
		return path
	}
	exitProgram, spinProgram := write("exit"), write("spin")
	w := newRealWorld(t, nil, host.Grants{Wasm: host.WasmGrant{Directories: []string{programs}}})
	w.Put("wasi.wasm", guestbuild.Plugin(t, "guest-examples/drivers/wasi"))
	w.start()
	d := w.mustDispense("wasi")
	defer d.Release()
	ctx := context.Background()

	cfg := w.task(d, "exits", map[string]any{"module": exitProgram, "args": []string{"3"}})
	h, _, err := d.StartTask(ctx, cfg, nil)
	require.NoError(t, err)
	require.Equal(t, cfg.Id, h.WorkloadId)
	exit, err := d.WaitTask(ctx, cfg, h)
	require.NoError(t, err)
	require.Equal(t, 3, exit.ExitCode)
	require.NoError(t, d.DestroyTask(ctx, cfg, h, false))
	_, err = d.RecoverTask(ctx, cfg, h, nil)
	require.ErrorIs(t, err, abi.ErrTaskNotFound)

	cfg = w.task(d, "spins", map[string]any{"module": spinProgram})
	h, _, err = d.StartTask(ctx, cfg, nil)
	require.NoError(t, err)
	require.Equal(t, abi.FailedPrecondition, abi.CodeOf(d.DestroyTask(ctx, cfg, h, false)))
	_, err = d.TaskStats(ctx, cfg, h)
	require.NoError(t, err)
	begun := time.Now()
	_, err = d.StopTask(ctx, cfg, h, "SIGKILL", 0)
	require.NoError(t, err)
	require.Less(t, time.Since(begun), catalogtest.TestTimeout, "it is not asked to end, which it never does")
	exit, err = d.WaitTask(ctx, cfg, h)
	require.NoError(t, err)
	require.False(t, exit.Successful())
	require.NoError(t, d.DestroyTask(ctx, cfg, h, false))

	cfg = w.task(d, "missing", map[string]any{"module": "local/none.wasm"})
	_, _, err = d.StartTask(ctx, cfg, nil)
	require.ErrorContains(t, err, "none.wasm")
	list, err := w.workloads.List(ctx)
	require.NoError(t, err)
	require.Empty(t, list)
}

// renamed changes a string in a plugin to another of the same length.
func renamed(t *testing.T, wasm []byte, from, to string) []byte {
	t.Helper()
	require.Len(t, to, len(from))
	require.True(t, bytes.Contains(wasm, []byte(from)), from)
	return bytes.ReplaceAll(wasm, []byte(from), []byte(to))
}

func TestOfTwentyPluginsSevenAreBrokenAndThirteenServe(t *testing.T) {
	good := guestbuild.CPlugin(t, "guest-examples/drivers/c-minimal")
	w := newRealWorld(t, nil, host.Grants{})
	for i := range 13 {
		w.Put(fmt.Sprintf("good%02d.wasm", i), renamed(t, good, "c_minimal", fmt.Sprintf("c_good_%02d", i)))
	}
	w.Put("bad1.wasm", []byte("#!/bin/sh\necho hello\n"))
	w.Put("bad2.wasm", good[:len(good)/2])
	w.Put("bad3.wasm", guestbuild.CProgram(t, "sdk/go/drivertest/guestbuild/testdata/c-program"))
	w.Put("bad4.wasm", []byte("\x00asm\x0d\x00\x01\x00"))
	w.Put("bad5.wasm", renamed(t, good, "wasmnode:abi/v1", "wasmnode:abi/v2"))
	w.Put("bad6.wasm", renamed(t, good, "driver_configure", "driver_cofingure"))
	w.Put("bad7.wasm", renamed(t, good, `"required":["module"]`, `"required":"module!!"`))
	begun := time.Now()
	w.start()
	t.Logf("20 files loaded or refused after %v", time.Since(begun))

	reasons := map[string]string{}
	healthy := 0
	for _, s := range w.Catalog.Status() {
		file := filepath.Base(s.File)
		switch s.State {
		case catalog.StateHealthy:
			require.True(t, strings.HasPrefix(file, "good"), file)
			healthy++
		case catalog.StateRejected:
			require.NotContains(t, s.Reason, "\n")
			reasons[file] = s.Reason
		default:
			t.Errorf("%s is %s: %s", file, s.State, s.Reason)
		}
	}
	require.Equal(t, 13, healthy)
	for file, want := range map[string]string{
		"bad1.wasm": `not a WebAssembly module: it begins with "#!/b"`,
		"bad2.wasm": "copied whole?",
		"bad3.wasm": "a WASI command (it exports _start), not a plugin",
		"bad4.wasm": "this is a component",
		"bad5.wasm": "this node supports wasmnode:abi/v1, the plugin needs v2",
		"bad6.wasm": "a driver plugin has to export driver_configure",
		"bad7.wasm": "describe: task_config_schema: at /required: a string, want a list",
	} {
		assert.Contains(t, reasons[file], want, file)
	}
	for i := range 13 {
		w.mustDispense(fmt.Sprintf("c_good_%02d", i)).Release()
	}
}

// TestAPluginThatIsDroppedInIsHealthyWithinTwoSeconds is on a clock that stands still
// while anything works, and so counts what is waited for, not what a machine computes; and
// on a directory that tells of nothing, where it takes longest.
func TestAPluginThatIsDroppedInIsHealthyWithinTwoSeconds(t *testing.T) {
	good := guestbuild.CPlugin(t, "guest-examples/drivers/c-minimal")
	synctest.Test(t, func(t *testing.T) {
		w := newRealWorldThatLooks(t, 500*time.Millisecond, nil, host.Grants{})
		w.start()
		// Copied in pieces, as cp does, not renamed.
		f, err := os.Create(filepath.Join(w.Path, "c.wasm"))
		require.NoError(t, err)
		for piece := range slices.Chunk(good, 1000) {
			_, err := f.Write(piece)
			require.NoError(t, err)
		}
		require.NoError(t, f.Close())
		begun := time.Now()
		w.Until("c.wasm c_minimal 0.1.0 healthy")
		t.Logf("healthy %v after the file was complete", time.Since(begun))
		require.Less(t, time.Since(begun), 2*time.Second)
	})
}

func TestAStatusIsJSONForTheAPI(t *testing.T) {
	s := catalog.PluginStatus{Name: "a", Type: host.KindDriver, State: catalog.StateHealthy, CapabilitiesImported: []string{}, CapabilitiesGranted: []string{}}
	got, err := json.Marshal(s)
	require.NoError(t, err)
	require.JSONEq(t, `{"Name":"a","Type":"driver","Version":"","State":"healthy","Reason":"","Since":"0001-01-01T00:00:00Z","Digest":"","SignedBy":"","CapabilitiesImported":[],"CapabilitiesGranted":[],"File":"",
		"Stats":{"Calls":0,"Faults":null,"Denied":0,"OutOfTime":0,"OutOfMemory":0,"MemoryBytes":0,"GuestTime":0,"LongestGap":0,"Instances":0,"Copies":0,"AtRest":0,"AtWork":0,
		"Opened":null,"Helpers":null,"HelpersRunning":0,"KeptValues":0,"KeptBytes":0,"Streams":0,"StreamRead":0,"StreamWritten":0,"NotGranted":null,"Took":null}}`, string(got))
}

func TestTheReasonOfAPluginWithoutAGrantNamesTheGrant(t *testing.T) {
	w := newRealWorld(t, nil, host.Grants{Wasm: host.WasmGrant{Denied: true}})
	w.Put("c.wasm", guestbuild.CPlugin(t, "guest-examples/drivers/c-minimal"))
	w.start()
	w.Until(`c.wasm c_minimal 0.1.0 unhealthy: needs grant wasmnode:wasm/v1: add plugin "c_minimal" { grant { wasm { enabled = true } } }`)
	s := w.Catalog.Status()[0]
	require.Equal(t, `plugin "c_minimal" { grant { wasm { enabled = true } } }`, s.WouldGrant)
	require.Contains(t, s.CapabilitiesImported, abi.ModuleWasm)
	require.NotContains(t, s.CapabilitiesGranted, abi.ModuleWasm)
	_, err := w.manager.Dispense("c_minimal")
	require.Equal(t, abi.FailedPrecondition, abi.CodeOf(err))
	require.ErrorContains(t, err, "needs grant wasmnode:wasm/v1")
}

func TestReplacingAPluginAgainAndAgainLeavesNothingBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("200 replacements")
	}
	good := guestbuild.CPlugin(t, "guest-examples/drivers/c-minimal")
	w := newRealWorld(t, nil, host.Grants{})
	w.Put("c.wasm", good)
	w.start()
	count := func() (goroutines, files, mappings int) {
		runtime.GC()
		fds, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		maps, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		return runtime.NumGoroutine(), len(fds), strings.Count(string(maps), "r-xp")
	}
	replace := func(i int) {
		d := w.mustDispense("c_minimal")
		w.Put("c.wasm", renamed(t, good, "0.1.0", fmt.Sprintf("0.1.%d", i%2)))
		require.Eventually(t, func() bool { return wake.IsClosed(d.Replaced()) }, catalogtest.TestTimeout, time.Millisecond)
		d.Release()
		<-d.plugin.Closed()
	}
	for i := range 10 {
		replace(i + 1)
	}
	goroutines, files, mappings := count()
	for i := range 200 {
		replace(i + 1)
	}
	// The engine may leave the last of it to the collector.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		goroutinesAfter, filesAfter, mappingsAfter := count()
		t.Logf("goroutines %d, %d; files %d, %d; executable mappings %d, %d", goroutines, goroutinesAfter, files, filesAfter, mappings, mappingsAfter)
		assert.LessOrEqual(c, goroutinesAfter, goroutines+5)
		assert.LessOrEqual(c, filesAfter, files+5)
		assert.LessOrEqual(c, mappingsAfter, mappings+10)
	}, catalogtest.TestTimeout, 50*time.Millisecond)
}
