package host_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/modtest"
)

// askingFor is a guest that asks for a function of a capability in every fingerprint and start.
func askingFor(module, function string, request host.Message) *modtest.Module {
	message := mustMarshal(request)
	m := guest(message, map[string][]byte{abi.OpDriverFingerprint: ask(fnStart, len(message)), abi.OpDriverStartTask: ask(fnStart, len(message))})
	m.Imports[fnStart].Module, m.Imports[fnStart].Name = module, function
	return m
}

func TestWhatAPluginUsesIsCounted(t *testing.T) {
	some := host.Grants{
		Process: host.ProcessGrant{Commands: []string{"/bin/sh"}, Helpers: []host.HelperGrant{anyScript}},
		HTTP:    host.HTTPGrant{Endpoints: []host.HTTPEndpoint{{Endpoint: "http://127.0.0.1:1", Paths: []string{"/"}}}},
		KV:      host.KVGrant{Enabled: true},
	}
	sleeps := &wasmnodev1.ProcessRunRequest{Command: "/bin/sh", Args: []string{"-c", "sleep 1000"}}
	for name, c := range map[string]struct {
		module, function string
		request          host.Message
		calls            int // 0: one
		ends             bool
		want             map[string]uint64
	}{
		"done":           {abi.ModuleKV, abi.FuncKVSet, &wasmnodev1.KvSetRequest{Key: "k", Value: []byte("value")}, 3, false, map[string]uint64{host.UseDone: 3}},
		"a key too long": {abi.ModuleKV, abi.FuncKVSet, &wasmnodev1.KvSetRequest{}, 0, false, map[string]uint64{host.UseFailed: 1}},
		"a bound":        {abi.ModuleKV, abi.FuncKVSet, &wasmnodev1.KvSetRequest{Key: "k"}, 0, false, map[string]uint64{host.UseExhausted: 1}},
		"a start":        {abi.ModuleProcess, abi.FuncProcessStart, shell("exit 0"), 0, false, map[string]uint64{host.UseFailed: 1}},
		"a helper":       {abi.ModuleProcess, abi.FuncProcessRun, &wasmnodev1.ProcessRunRequest{Command: "/bin/ls"}, 0, false, map[string]uint64{host.UseDenied: 1}},
		"a call's end":   {abi.ModuleProcess, abi.FuncProcessRun, sleeps, 0, true, map[string]uint64{host.UseEnded: 1}},
		"a connection":   {abi.ModuleNet, abi.FuncNetDial, &wasmnodev1.NetDialRequest{Address: "127.0.0.1:1"}, 0, false, map[string]uint64{host.UseDenied: 1}},
		"a request":      {abi.ModuleHTTP, abi.FuncHTTPRequest, &wasmnodev1.HttpRequest{Method: "GET", Url: "http://127.0.0.1:2/"}, 0, false, map[string]uint64{host.UseDenied: 1}},
		"no workload":    {abi.ModuleWorkload, abi.FuncWorkloadSignal, &wasmnodev1.WorkloadSignalRequest{}, 0, false, map[string]uint64{host.UseFailed: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, host.Limits{})
			p := w.ready(t, askingFor(c.module, c.function, c.request).Bytes(), some)
			if name == "a bound" {
				host.SpendChanges(w.Host, "driver/test")
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for range max(1, c.calls) {
				called := make(chan error)
				go func() {
					_, err := p.Call(ctx, abi.OpDriverFingerprint, nil, nil)
					called <- err
				}()
				if c.ends {
					require.Eventually(t, func() bool { return p.Stats().HelpersRunning == 1 }, time.Minute, time.Millisecond)
					cancel()
				}
				err := <-called
				require.Equal(t, c.ends, err != nil, err)
			}
			stats, got, all := p.Stats(), map[string]uint64{}, uint64(0)
			for _, u := range stats.Uses {
				if u.Module == c.module {
					require.Equal(t, c.function, u.Function)
					got[u.Outcome] += u.Count
					all += u.Count
				}
			}
			require.EqualValues(t, max(1, c.calls), all)
			require.Zero(t, stats.HelpersRunning)
			require.Equal(t, c.want, got)
		})
	}
}

func TestWhatAPluginKeepsIsTold(t *testing.T) {
	w := newWorld(t, host.Limits{})
	p := w.ready(t, askingFor(abi.ModuleKV, abi.FuncKVSet, &wasmnodev1.KvSetRequest{Key: "key", Value: []byte("value")}).Bytes(), keeps)
	require.Zero(t, p.Stats().KeptBytes)
	_, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []int{1, 8}, []int{p.Stats().KeptValues, p.Stats().KeptBytes})
	other := w.ready(t, askingFor(abi.ModuleKV, abi.FuncKVDelete, &wasmnodev1.KvDeleteRequest{Key: "key"}).Bytes(), keeps)
	_, err = other.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []int{0, 0}, []int{p.Stats().KeptValues, p.Stats().KeptBytes}, "it is the plugin's, whichever version of it asks")
}
