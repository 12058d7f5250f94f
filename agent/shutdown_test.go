package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
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
)

// stubborn is a driver that never returns from one operation: it calls an import with the
// arguments that give it the most to do, for ever.
func stubborn(t *testing.T, name, op, function string) []byte {
	t.Helper()
	imports := importtest.WASI(t)
	i := slices.IndexFunc(imports, func(i modtest.Import) bool { return i.Name == function })
	require.GreaterOrEqual(t, i, 0)
	loop := importtest.LoopsOf(imports[i])[0]

	m := &modtest.Module{Pages: importtest.Pages, Data: loop.Data()}
	m.Imports = append([]modtest.Import{{Module: abi.ModuleABI, Name: abi.FuncOutput, Type: modtest.Type{Params: []byte{modtest.I32, modtest.I32}}}}, loop.Imports()...)
	for at, answer := range map[string]interface{ MarshalVT() ([]byte, error) }{
		abi.OpDriverDescribe:    &wasmnodev1.DriverDescribeResponse{Name: name, Version: "1.0.0"},
		abi.OpDriverConfigure:   &wasmnodev1.DriverConfigureResponse{},
		abi.OpDriverFingerprint: &wasmnodev1.DriverFingerprintResponse{Health: wasmnodev1.HealthState_HEALTH_STATE_HEALTHY},
		abi.OpDriverStartTask:   &wasmnodev1.DriverStartTaskResponse{Handle: &wasmnodev1.TaskHandle{Version: 1, DriverState: []byte("x")}},
		abi.OpDriverWaitTask:    &wasmnodev1.DriverWaitTaskResponse{},
	} {
		b, err := answer.MarshalVT()
		require.NoError(t, err)
		offset := int32(importtest.MessageAt + 256*len(m.Data))
		m.Data = append(m.Data, modtest.Data{Offset: uint32(offset), Bytes: b})
		body := modtest.Code(modtest.I32Const(offset), modtest.I32Const(int32(len(b))), modtest.Call(0), modtest.I32Const(0))
		if at == op {
			body = append(loop.Body(1), modtest.I32Const(0)...)
		}
		m.Funcs = append(m.Funcs, modtest.Func{Export: at, Type: modtest.Operation, Body: body})
	}
	return m.Bytes()
}

// shutdownTime is what an agent has to end in, on a machine that does much else, too: guests
// that were not ended kept it for minutes.
const shutdownTime = time.Minute

// An agent that is to end ends whatever its plugins do, at their fingerprints and in tasks.
func TestAnAgentEndsThoughGuestsDoNot(t *testing.T) {
	dir := t.TempDir()
	plugins := filepath.Join(dir, "plugins")
	require.NoError(t, os.Mkdir(plugins, 0o700))
	for name, wasm := range map[string][]byte{
		"drawing":   stubborn(t, "drawing", abi.OpDriverFingerprint, "random_get"),
		"polling":   stubborn(t, "polling", abi.OpDriverFingerprint, "poll_oneoff"),
		"writing":   stubborn(t, "writing", abi.OpDriverFingerprint, "fd_write"),
		"unwilling": stubborn(t, "unwilling", abi.OpDriverWaitTask, "random_get"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(plugins, name+".wasm"), wasm, 0o600))
	}
	ready, ended := make(chan string, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- agent.Run(ctx, agent.Options{
			DataDir: filepath.Join(dir, "data"), PluginDir: plugins, HTTPAddr: "127.0.0.1:0", LogLevel: "error", LogOutput: t.Output(),
			Ready: func(address string) { ready <- address },
		})
	}()
	defer cancel()
	a := &agenttest.Agent{}
	var err error
	select {
	case address := <-ready:
		a.Client, err = nomad.NewClient(&nomad.Config{Address: "http://" + address})
		require.NoError(t, err)
		defer a.Client.Close()
	case err := <-ended:
		require.FailNow(t, "the agent did not start", "%v", err)
	}
	job := agenttest.Job("waits", "unwilling", nil)
	count := 8
	job.TaskGroups[0].Count = &count
	_, _, err = a.Client.Jobs().Register(job, nil)
	require.NoError(t, err)
	a.Await(t, "waits", nomad.AllocClientStatusRunning)

	began := time.Now()
	cancel()
	select {
	case err := <-ended:
		require.NoError(t, err)
		t.Logf("it ended after %v", time.Since(began))
	case <-time.After(shutdownTime):
		t.Fatalf("it has not ended after %v", shutdownTime)
	}
}
