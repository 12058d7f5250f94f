package host_test

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

var update = flag.Bool("update", false, "write the golden files anew")

// badFile is a file that is not a plugin of this node.
type badFile struct {
	name  string
	wasm  []byte
	stage sandbox.Stage
}

func badFiles() []badFile {
	good := guest(nil, nil)
	changed := func(f func(m *modtest.Module)) []byte {
		m := guest(nil, nil)
		f(m)
		return m.Bytes()
	}
	op := func(name string, f func(f *modtest.Func)) []byte {
		return changed(func(m *modtest.Module) {
			for i := range m.Funcs {
				if m.Funcs[i].Export == name {
					f(&m.Funcs[i])
				}
			}
		})
	}
	imports := func(module, name string, t modtest.Type) []byte {
		return changed(func(m *modtest.Module) { m.Imports[fnRefresh] = modtest.Import{Module: module, Name: name, Type: t} })
	}
	describes := func(d *wasmnodev1.DriverDescribeResponse) []byte {
		b, err := d.MarshalVT()
		if err != nil {
			panic(err)
		}
		return guest(b, map[string][]byte{abi.OpDriverDescribe: answer(messageAt, len(b))}).Bytes()
	}
	describe := func(body ...[]byte) []byte {
		return guest(nil, map[string][]byte{abi.OpDriverDescribe: modtest.Code(body...)}).Bytes()
	}
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
		if err != nil {
			panic(err)
		}
		return b
	}
	return []badFile{
		{"empty file", nil, sandbox.StageScan},
		{"text file", []byte("hello, world\n"), sandbox.StageScan},
		{"ELF file", []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00"), sandbox.StageScan},
		{"first bytes of a copy", good.Bytes()[:6], sandbox.StageScan},
		{"half a copy", good.Bytes()[:len(good.Bytes())/2], sandbox.StageScan},
		{"all but the last byte", good.Bytes()[:len(good.Bytes())-1], sandbox.StageScan},
		{"file of zeros", make([]byte, 4096), sandbox.StageScan},
		{"component", unhex("0061736d 0d000100 00"), sandbox.StageScan},
		{"later version of WebAssembly", unhex("0061736d 02000000"), sandbox.StageScan},
		{"four billion imports", unhex("0061736d 01000000 0206 ffffffff0f 00"), sandbox.StageScan},
		{"module without anything", (&modtest.Module{Pages: 1}).Bytes(), sandbox.StagePolicy},
		{"WASI command", changed(func(m *modtest.Module) {
			m.Funcs = append(m.Funcs, modtest.Func{Export: "_start"})
		}), sandbox.StagePolicy},
		{"without start_task and configure", changed(func(m *modtest.Module) {
			for i := range m.Funcs {
				if e := &m.Funcs[i].Export; *e == abi.OpDriverStartTask || *e == abi.OpDriverConfigure {
					*e = ""
				}
			}
		}), sandbox.StagePolicy},
		{"operation of another type", op(abi.OpDriverConfigure, func(f *modtest.Func) {
			f.Type, f.Body = modtest.Type{}, nil
		}), sandbox.StagePolicy},
		{"memory not exported", changed(func(m *modtest.Module) { m.HideMemory = true }), sandbox.StagePolicy},
		{"initialiser with parameters", changed(func(m *modtest.Module) {
			m.Funcs = append(m.Funcs, modtest.Func{Export: abi.ExportInitialize, Type: modtest.Type{Params: []byte{modtest.I32}}})
		}), sandbox.StagePolicy},
		{"next version of the ABI", imports("wasmnode:abi/v2", abi.FuncInput, modtest.Type{}), sandbox.StagePolicy},
		{"capability of another version", imports("wasmnode:wasm/v7", abi.FuncWasmStart, modtest.Type{}), sandbox.StagePolicy},
		{"capability without a version", imports("wasmnode:log", abi.FuncLogWrite, modtest.Type{}), sandbox.StagePolicy},
		{"capability that does not exist", imports("wasmnode:gpu/v1", "open", modtest.Type{}), sandbox.StagePolicy},
		{"foreign import", imports("env", "emscripten_resize_heap", modtest.Type{}), sandbox.StagePolicy},
		{"WASI preview 2", imports("wasi:cli/environment@0.2.0", "get-environment", modtest.Type{}), sandbox.StagePolicy},
		{"function that a capability lacks", imports(abi.ModuleTask, "delete", modtest.Type{}), sandbox.StagePolicy},
		{"import whose name drives a terminal", imports(abi.ModuleTask, "\r\x1b[2Kdelete\n", modtest.Type{}), sandbox.StagePolicy},
		{"import of a module whose name drives a terminal", imports("\x1b[2Kenv", "\r\nopen", modtest.Type{}), sandbox.StagePolicy},
		{"WASI function that does not exist", imports(abi.ModuleWASI, "sock_open", modtest.Type{}), sandbox.StagePolicy},
		{"import of another type", imports(abi.ModuleTask, abi.FuncTaskRefresh, modtest.Type{Params: []byte{modtest.I64}}), sandbox.StagePolicy},
		{"the meter's import", imports("wasmnode:meter/v1", "yield", modtest.Type{Results: []byte{modtest.I32}}), sandbox.StagePolicy},
		{"too much memory", changed(func(m *modtest.Module) { m.Pages = 3000 }), sandbox.StagePolicy},
		{"body of the wrong type", op(abi.OpDriverConfigure, func(f *modtest.Func) { f.Body = nil }), sandbox.StageCompile},
		{"device plugin that cannot reserve", changed(func(m *modtest.Module) {
			for _, name := range []string{abi.OpDeviceDescribe, abi.OpDeviceConfigure, abi.OpDeviceFingerprint, abi.OpDeviceStats} {
				m.Funcs = append(m.Funcs, modtest.Func{Export: name, Type: modtest.Operation, Body: answer(0, 0)})
			}
			m.Funcs = m.Funcs[4:]
		}), sandbox.StagePolicy},
		{"describe traps", describe(modtest.Unreachable), sandbox.StageDescribe},
		{"describe loops", describe(modtest.Loop(), modtest.I32Const(0)), sandbox.StageDescribe},
		{"describe exits", describe(modtest.I32Const(3), modtest.Call(fnExit), modtest.I32Const(0)), sandbox.StageDescribe},
		{"describe answers nothing", describe(modtest.I32Const(0)), sandbox.StageDescribe},
		{"describe answers garbage", describe(answer(describeAt+1, 5)), sandbox.StageDescribe},
		{"describe fails", guest(mustMarshal(&wasmnodev1.Error{Code: abi.Unavailable, Message: "no license key"}), map[string][]byte{
			abi.OpDriverDescribe: modtest.Code(modtest.I32Const(messageAt), modtest.I32Const(18), modtest.Call(fnOutput), modtest.I32Const(14)),
		}).Bytes(), sandbox.StageDescribe},
		{"start function loops", changed(func(m *modtest.Module) {
			start := uint32(len(m.Imports) + len(m.Funcs))
			m.Funcs = append(m.Funcs, modtest.Func{Body: modtest.Loop()})
			m.Start = &start
		}), sandbox.StageDescribe},
		{"initialiser traps", changed(func(m *modtest.Module) {
			m.Funcs = append(m.Funcs, modtest.Func{Export: abi.ExportInitialize, Body: modtest.Unreachable})
		}), sandbox.StageDescribe},
		{"data outside of memory", changed(func(m *modtest.Module) { m.Data[0].Offset = 1<<16 - 2 }), sandbox.StageDescribe},
		{"no name", describes(&wasmnodev1.DriverDescribeResponse{Version: "1.0.0"}), sandbox.StageDescribe},
		{"name with control characters", describes(&wasmnodev1.DriverDescribeResponse{Name: "a\x1b[2Jb", Version: "1.0.0"}), sandbox.StageDescribe},
		{"name that is a path", describes(&wasmnodev1.DriverDescribeResponse{Name: "../../etc", Version: "1.0.0"}), sandbox.StageDescribe},
		{"version that is none", describes(&wasmnodev1.DriverDescribeResponse{Name: "x", Version: "latest"}), sandbox.StageDescribe},
		{"schema that is no JSON", describes(&wasmnodev1.DriverDescribeResponse{Name: "x", Version: "1.0.0", TaskConfigSchema: "{type: object}"}), sandbox.StageDescribe},
	}
}

func mustMarshal(m host.Message) []byte {
	b, err := m.MarshalVT()
	if err != nil {
		panic(err)
	}
	return b
}

// Every file that is not a plugin is refused with one clear line that says what to do.
func TestABadFileIsRefusedInOneLine(t *testing.T) {
	patient, short := newWorld(t, host.Limits{}), newWorld(t, host.Limits{DescribeTime: 5 * time.Second})
	var golden strings.Builder
	for _, f := range badFiles() {
		w := patient
		if strings.HasSuffix(f.name, " loops") {
			w = short
		}
		t.Run(f.name, func(t *testing.T) {
			p, err := w.Load(t.Context(), host.NewSource(f.wasm))
			if err == nil {
				p.Close()
			}
			var refused *sandbox.StageError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, f.stage, refused.Stage, "%v", err)
			require.False(t, strings.ContainsAny(err.Error(), "\n\r\x1b"), "%q", err.Error())
			golden.WriteString(f.name + ":\n    " + stable(err) + "\n")
		})
	}
	const path = "testdata/refusals.golden"
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(golden.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), golden.String())
	counted, refused := map[sandbox.Stage]uint64{}, maps.Clone(patient.Refusals())
	for _, f := range badFiles() {
		counted[f.stage]++
	}
	for stage, n := range short.Refusals() {
		refused[stage] += n
	}
	require.Equal(t, counted, refused)
}

// stable leaves out of an error what time it was.
func stable(err error) string {
	before, rest, found := strings.Cut(err.Error(), ": ended ")
	if !found {
		return before
	}
	_, rest, _ = strings.Cut(rest, " ")
	rest, _, _ = strings.Cut(rest, "it had ")
	return before + ": ended SOME TIME " + rest + "it had SOME TIME"
}

func TestAFileHasALimit(t *testing.T) {
	wasm := guest(nil, nil).Bytes()
	_, err := newWorld(t, host.Limits{FileBytes: len(wasm) - 1}).Load(t.Context(), host.NewSource(wasm))
	require.ErrorContains(t, err, "read: the file has ")
	newWorld(t, host.Limits{FileBytes: len(wasm)}).load(t, wasm)
}

func TestInspectingRunsNothing(t *testing.T) {
	g := guest(nil, map[string][]byte{abi.OpDriverDescribe: modtest.Unreachable, abi.OpDriverStopTask: modtest.Unreachable})
	spec, err := host.Inspect(g.Bytes(), 1<<20)
	require.NoError(t, err)
	require.Equal(t, host.KindDriver, spec.Kind)
	require.Equal(t, host.NewSource(g.Bytes()).Digest(), spec.Digest)
	require.Equal(t, []string{abi.ModuleWASI, abi.ModuleABI, abi.ModuleLog, abi.ModuleTask, abi.ModuleWasm}, spec.Capabilities)
	require.Equal(t, []string{abi.OpDriverConfigure, abi.OpDriverDescribe, abi.OpDriverFingerprint, abi.OpDriverStartTask, abi.OpDriverStopTask}, spec.Operations)
}

func TestAnUnconfiguredPluginMayDoNothing(t *testing.T) {
	for name, fn := range map[string]uint32{"event": fnEvent, "start": fnStart} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, host.Limits{})
			p := w.load(t, guest(nil, map[string][]byte{abi.OpDriverFingerprint: modtest.Code(modtest.Call(fnRefresh), ask(fn, 0))}).Bytes())
			out, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, taskScope(t))
			require.NoError(t, err)
			require.Equal(t, abi.PermissionDenied, answeredError(t, out).Code)
			require.Empty(t, w.refreshes)
			require.EqualValues(t, 1, p.Stats().Denied)
		})
	}
}

func TestTheErrorOfAMissingGrantShowsTheConfigurationToAdd(t *testing.T) {
	p := newWorld(t, host.Limits{}).load(t, guest(nil, nil).Bytes())
	err := p.Configure(t.Context(), host.Grants{Wasm: host.WasmGrant{Denied: true}}, nil)
	var missing *host.MissingGrantError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, abi.ModuleWasm, missing.Capability)
	require.EqualError(t, err, `needs grant wasmnode:wasm/v1: add plugin "test" { grant { wasm { enabled = true } } }`)
}

func TestAnAmbiguousGrantIsRefused(t *testing.T) {
	for name, g := range map[string]host.Grants{
		"relative":      {FS: host.FSGrant{ReadOnly: []string{"data"}}},
		"not clean":     {FS: host.FSGrant{ReadWrite: []string{"/srv/../etc"}}},
		"trailing":      {Wasm: host.WasmGrant{Directories: []string{"/srv/"}}},
		"pattern":       {FS: host.FSGrant{ReadOnly: []string{"/srv/*"}}},
		"NUL":           {FS: host.FSGrant{ReadOnly: []string{"/srv\x00"}}},
		"twice":         {FS: host.FSGrant{ReadOnly: []string{"/srv", "/srv"}}},
		"ro and rw":     {FS: host.FSGrant{ReadOnly: []string{"/srv"}, ReadWrite: []string{"/srv"}}},
		"negative":      {Wasm: host.WasmGrant{MaxPrograms: -1}},
		"some command":  {Process: host.ProcessGrant{Commands: []string{"/usr/bin/s*"}}},
		"no command":    {Process: host.ProcessGrant{Commands: []string{"sleep"}}},
		"some user":     {Process: host.ProcessGrant{Users: []string{"www*"}}},
		"node outside":  {Devices: host.DeviceGrant{Nodes: []string{"/etc"}}},
		"node pattern":  {Devices: host.DeviceGrant{Nodes: []string{"/dev/*/x"}}},
		"all of /dev":   {Devices: host.DeviceGrant{Nodes: []string{"/dev/"}}},
		"nothing at al": {FS: host.FSGrant{ReadOnly: []string{""}}},
		"no port":       {Net: host.NetGrant{Addresses: []string{"10.0.0.1"}}},
		"no socket":     {Net: host.NetGrant{Sockets: []string{"run/x.sock"}}},
		"no endpoint":   {HTTP: host.HTTPGrant{Endpoints: []host.HTTPEndpoint{{Endpoint: "x", Paths: []string{"/"}}}}},
		"no method":     {HTTP: host.HTTPGrant{Endpoints: []host.HTTPEndpoint{{Endpoint: "http://x", Methods: []string{"GET POST"}, Paths: []string{"/"}}}}},
		"no path":       {HTTP: host.HTTPGrant{Endpoints: []host.HTTPEndpoint{{Endpoint: "http://x", Paths: []string{"v1"}}}}},
		"no paths":      {HTTP: host.HTTPGrant{Endpoints: []host.HTTPEndpoint{{Endpoint: "http://x"}}}},
	} {
		t.Run(name, func(t *testing.T) { require.ErrorContains(t, g.Validate(), "grant.") })
	}
	require.NoError(t, host.Grants{FS: host.FSGrant{ReadOnly: []string{"/", "/srv"}}, Wasm: host.WasmGrant{Directories: []string{"/srv"}}}.Validate())
}

func TestTheMountsAndNodesOfADevicePluginAreBoundedByItsGrants(t *testing.T) {
	g := host.Grants{
		FS:      host.FSGrant{ReadOnly: []string{"/srv/a"}, ReadWrite: []string{"/srv/b"}},
		Devices: host.DeviceGrant{Nodes: []string{"/dev/bus/usb", "/dev/nvidia*"}},
	}
	require.NoError(t, g.Validate())
	for _, path := range []string{"/srv/a", "/srv/a/x/y", "/srv/b"} {
		require.True(t, g.Mountable(path, true), path)
	}
	require.True(t, g.Mountable("/srv/b/x", false))
	require.False(t, g.Mountable("/srv/a/x", false), "what is only readable is not made writable")
	for _, path := range []string{"/", "/srv", "/srv/ab", "/etc/shadow", ""} {
		require.False(t, g.Mountable(path, true), path)
	}
	for _, path := range []string{"/dev/bus/usb/001/002", "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia"} {
		require.True(t, g.NodeGranted(path), path)
	}
	for _, path := range []string{"/dev/sda", "/dev/nvidia-caps/cap1", "/dev/bus/usbmon", "/dev/bus", ""} {
		require.False(t, g.NodeGranted(path), path)
	}
	require.True(t, host.Grants{FS: host.FSGrant{ReadOnly: []string{"/"}}}.Mountable("/etc", true))
}

func TestTheExampleDriversLoad(t *testing.T) {
	w := newWorld(t, host.Limits{})
	for name, wasm := range map[string][]byte{
		"wasi":      guestbuild.Plugin(t, "guest-examples/drivers/wasi"),
		"mock":      guestbuild.Plugin(t, "guest-examples/drivers/mock"),
		"c_minimal": guestbuild.CPlugin(t, "guest-examples/drivers/c-minimal"),
	} {
		t.Run(name, func(t *testing.T) {
			p := w.ready(t, wasm, host.Grants{})
			require.Equal(t, name, strings.ReplaceAll(p.Name(), "mock_driver", "mock"))
			var answer wasmnodev1.DriverFingerprintResponse
			require.NoError(t, p.Invoke(t.Context(), host.Call{Op: abi.OpDriverFingerprint, Request: &wasmnodev1.DriverFingerprintRequest{}, Answer: &answer}))
			require.Equal(t, wasmnodev1.HealthState_HEALTH_STATE_HEALTHY, answer.Health)
		})
	}
}

func TestLoadingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newWorld(t, host.Limits{}).Load(ctx, host.NewSource(guest(nil, nil).Bytes()))
	require.True(t, errors.Is(err, context.Canceled), "%v", err)
}
