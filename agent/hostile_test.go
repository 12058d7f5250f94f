package agent_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/agent/agenttest"
	"github.com/wasmnode/wasmnode/internal/importtest"
	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/runners/allocdir/allocdirtest"
)

// stubborn is a driver that never returns from one operation: it calls an import with the
// arguments that give it the most to do, for ever.
func stubborn(t *testing.T, name, op, function string) []byte {
	t.Helper()
	loop := importtest.LoopsOf(wasiImport(t, function))[0]
	return driverOf(t, name, op, &modtest.Module{Pages: importtest.Pages, Data: loop.Data(), Imports: loop.Imports()}, loop.Body(0))
}

func wasiImport(t *testing.T, function string) modtest.Import {
	t.Helper()
	imports := importtest.WASI(t)
	i := slices.IndexFunc(imports, func(i modtest.Import) bool { return i.Name == function })
	require.GreaterOrEqual(t, i, 0)
	return imports[i]
}

// driverOf makes a driver of a module, that answers every operation as one without faults, but
// op, which has that body.
func driverOf(t *testing.T, name, op string, m *modtest.Module, body []byte) []byte {
	t.Helper()
	output := uint32(len(m.Imports))
	m.Imports = append(m.Imports, modtest.Import{Module: abi.ModuleABI, Name: abi.FuncOutput, Type: modtest.Type{Params: []byte{modtest.I32, modtest.I32}}})
	for at, answer := range map[string]interface{ MarshalVT() ([]byte, error) }{
		abi.OpDriverDescribe:    &wasmnodev1.DriverDescribeResponse{Name: name, Version: "1.0.0"},
		abi.OpDriverConfigure:   &wasmnodev1.DriverConfigureResponse{},
		abi.OpDriverFingerprint: &wasmnodev1.DriverFingerprintResponse{Health: wasmnodev1.HealthState_HEALTH_STATE_HEALTHY},
		abi.OpDriverStartTask:   &wasmnodev1.DriverStartTaskResponse{Handle: &wasmnodev1.TaskHandle{Version: 1, DriverState: []byte("x")}},
		abi.OpDriverRecoverTask: &wasmnodev1.DriverRecoverTaskResponse{},
		abi.OpDriverWaitTask:    &wasmnodev1.DriverWaitTaskResponse{},
		abi.OpDriverStopTask:    &wasmnodev1.DriverStopTaskResponse{},
	} {
		b, err := answer.MarshalVT()
		require.NoError(t, err)
		offset := int32(importtest.MessageAt + 256*len(m.Data))
		m.Data = append(m.Data, modtest.Data{Offset: uint32(offset), Bytes: b})
		f := modtest.Code(modtest.I32Const(offset), modtest.I32Const(int32(len(b))), modtest.Call(output), modtest.I32Const(0))
		if at == op {
			f = append(body, modtest.I32Const(0)...)
		}
		m.Funcs = append(m.Funcs, modtest.Func{Export: at, Type: modtest.Operation, Body: f})
	}
	return m.Bytes()
}

// hungry is a driver whose waits touch 120 MB each, and sleep.
func hungry(t *testing.T) []byte {
	const pages, subscription, scratch = 120 << 4, 1 << 10, 2 << 10
	return driverOf(t, "hungry", abi.OpDriverWaitTask,
		&modtest.Module{Pages: 16, Imports: []modtest.Import{wasiImport(t, "poll_oneoff")}},
		modtest.Code(
			modtest.I32Const(pages), modtest.Grow, modtest.I32Const(-1), []byte{0x46, 0x04, 0x40}, modtest.Unreachable, []byte{0x0b}, // trap without memory
			modtest.I32Const(16<<16), modtest.I32Const(1), modtest.I32Const(pages<<16), modtest.Fill,
			modtest.I32Const(subscription+24), modtest.I64Const(3600e9), []byte{0x37, 3, 0}, // i64.store: an hour
			modtest.Loop(modtest.I32Const(subscription), modtest.I32Const(scratch), modtest.I32Const(1), modtest.I32Const(scratch+64), modtest.Call(0), modtest.Drop)))
}

// running is an agent in this process.
type running struct {
	*agenttest.Agent
	end func() error // returns when it has ended
}

// runOn runs an agent on a directory, whose plugins are in "plugins" and whose
// configuration is node.hcl.
func runOn(t *testing.T, dir string) running {
	t.Helper()
	allocdirtest.Unmount(t, dir)
	ready, ended := make(chan string, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- agent.Run(ctx, agent.Options{
			ConfigPaths: []string{filepath.Join(dir, "node.hcl")}, DataDir: filepath.Join(dir, "data"), PluginDir: filepath.Join(dir, "plugins"),
			HTTPAddr: "127.0.0.1:0", LogLevel: "error", LogOutput: t.Output(), Ready: func(address string) { ready <- address },
		})
	}()
	t.Cleanup(cancel)
	a := running{Agent: &agenttest.Agent{}}
	select {
	case address := <-ready:
		a.URL = "http://" + address
	case err := <-ended:
		require.FailNow(t, "the agent did not start", "%v", err)
	}
	var err error
	a.Client, err = nomad.NewClient(&nomad.Config{Address: a.URL})
	require.NoError(t, err)
	t.Cleanup(a.Client.Close)
	a.end = func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(shutdownTime):
			return fmt.Errorf("it has not ended after %v", shutdownTime)
		}
	}
	return a
}

// putPlugins makes the directory of an agent, with plugins and a configuration.
func putPlugins(t *testing.T, config string, plugins map[string][]byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "plugins"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "node.hcl"), []byte(config), 0o600))
	for name, wasm := range plugins {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "plugins", name+".wasm"), wasm, 0o600))
	}
	return dir
}

func (a running) register(t *testing.T, driver string, count int) {
	t.Helper()
	job := agenttest.Job("waits", driver, nil)
	job.TaskGroups[0].Count = &count
	_, _, err := a.Client.Jobs().Register(job, nil)
	require.NoError(t, err)
}

// shutdownTime is what an agent has to end in, on a machine that does much else, too: guests
// that were not ended kept it for minutes.
const shutdownTime = time.Minute

// An agent that is to end ends whatever its plugins do, at their fingerprints and in tasks.
func TestAnAgentEndsThoughGuestsDoNot(t *testing.T) {
	a := runOn(t, putPlugins(t, "", map[string][]byte{
		"drawing":   stubborn(t, "drawing", abi.OpDriverFingerprint, "random_get"),
		"polling":   stubborn(t, "polling", abi.OpDriverFingerprint, "poll_oneoff"),
		"writing":   stubborn(t, "writing", abi.OpDriverFingerprint, "fd_write"),
		"unwilling": stubborn(t, "unwilling", abi.OpDriverWaitTask, "random_get"),
	}))
	a.register(t, "unwilling", 8)
	a.Await(t, "waits", nomad.AllocClientStatusRunning)
	began := time.Now()
	require.NoError(t, a.end())
	t.Logf("it ended after %v", time.Since(began))
}

// Sixty waits that touch 120 MB each killed the agent, and again at each restart.
func TestAnAgentLivesWithPluginsThatTakeAllMemory(t *testing.T) {
	dir := putPlugins(t, "plugin_limits {\n memory = 300\n memory_all = 600\n}\n", map[string][]byte{"hungry": hungry(t)})
	a := runOn(t, dir)
	a.register(t, "hungry", 60)
	for range 2 {
		a.Await(t, "waits", nomad.AllocClientStatusRunning)
		// Two waits have what they need, and the others are told.
		require.Eventually(t, func() bool {
			return a.metric(t, `wasmnode_plugin_exhausted_total{budget="memory",plugin="hungry"}`) >= 58
		}, 3*time.Minute, 100*time.Millisecond)
		require.LessOrEqual(t, a.metric(t, `wasmnode_plugin_memory_bytes{plugin="hungry"}`), float64(300<<20))
		require.NoError(t, a.end())
		a = runOn(t, dir)
	}
	require.NoError(t, a.end())
}

// metric returns the value of a metric; 0: it is not there.
func (a running) metric(t *testing.T, name string) float64 {
	t.Helper()
	response, err := http.Get(a.URL + "/v1/metrics?format=prometheus")
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			require.NoError(t, err)
			return v
		}
	}
	return 0
}
