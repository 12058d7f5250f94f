package host_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/modtest"
)

// keepingToItself is a guest that in a start answers what it was answered, and in a recovery an error
// in words of its own, whatever it was refused.
func keepingToItself(module, function string, request host.Message) []byte {
	const own = 200 << 10 // where the error is
	failure := mustMarshal(abi.Proto(abi.NewError(abi.Unavailable, "the engine is not there")))
	message := mustMarshal(request)
	m := guest(message, map[string][]byte{
		abi.OpDriverStartTask: ask(fnStart, len(message)),
		abi.OpDriverRecoverTask: modtest.Code(
			modtest.I32Const(messageAt), modtest.I32Const(int32(len(message))), modtest.Call(fnStart), modtest.Drop,
			modtest.I32Const(own), modtest.I32Const(int32(len(failure))), modtest.Call(fnOutput), modtest.I32Const(1)),
	})
	m.Imports[fnStart].Module, m.Imports[fnStart].Name = module, function
	m.Data, m.Pages = append(m.Data, modtest.Data{Offset: own, Bytes: failure}), 4
	return m.Bytes()
}

// lackingUse is one use of a capability that is not granted.
type lackingUse struct {
	module, function string
	request          host.Message
	before           host.Grants // what the plugin has when it is configured
	now              host.Grants // what it has when it asks
	fix              string
}

// lackingUses are of each function that needs a grant, by a plugin that has another grant of the same
// capability, or none any more.
func lackingUses(outside string) map[string]lackingUse {
	app, socket := filepath.Join(outside, "app.wasm"), filepath.Join(outside, "engine.sock")
	start := func(change func(*wasmnodev1.ProcessStartRequest)) *wasmnodev1.ProcessStartRequest {
		r := shell("exit 0")
		change(r)
		return r
	}
	isolated := func(change func(*wasmnodev1.ProcessStartRequest)) *wasmnodev1.ProcessStartRequest {
		r := start(change)
		r.Isolation = wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_FULL
		return r
	}
	image := []*wasmnodev1.ProcessMount{{Source: "/srv/images", Target: "/x", ReadOnly: true}}
	any, none := host.Grants{Process: host.ProcessGrant{Commands: []string{"*"}}}, host.Grants{}
	some := host.Grants{
		Process: host.ProcessGrant{Commands: []string{"/other"}, Helpers: []host.HelperGrant{{Command: "/other"}}},
		Net:     host.NetGrant{Addresses: []string{"other:1"}},
		HTTP:    host.HTTPGrant{Endpoints: []host.HTTPEndpoint{{Endpoint: "http://other", Paths: []string{"/"}}}},
		KV:      host.KVGrant{Enabled: true},
	}
	floor := host.Grants{Process: host.ProcessGrant{Commands: []string{"*"}, Isolation: "full"}}
	return map[string]lackingUse{
		"wasm: a module": {abi.ModuleWasm, abi.FuncWasmStart, &wasmnodev1.WasmStartRequest{Module: app}, some, some, `wasm { directories = ["` + outside + `"] }`},
		"wasm: all":      {abi.ModuleWasm, abi.FuncWasmStart, &wasmnodev1.WasmStartRequest{Module: app}, some, host.Grants{Wasm: host.WasmGrant{Denied: true}}, `wasm { enabled = true }`},

		"process: a command":    {abi.ModuleProcess, abi.FuncProcessStart, shell("exit 0"), some, some, `process { commands = ["/bin/sh"] }`},
		"process: no command":   {abi.ModuleProcess, abi.FuncProcessStart, shell("exit 0"), some, none, `process { commands = ["/bin/sh"] }`},
		"process: an isolation": {abi.ModuleProcess, abi.FuncProcessStart, shell("exit 0"), floor, floor, `process { isolation = "none" }`},
		"process: a user":       {abi.ModuleProcess, abi.FuncProcessStart, start(func(r *wasmnodev1.ProcessStartRequest) { r.User = "games" }), any, any, `process { users = ["games"] }`},
		"process: a variable": {abi.ModuleProcess, abi.FuncProcessStart, start(func(r *wasmnodev1.ProcessStartRequest) {
			r.Command, r.Env = "/other", map[string]string{"LD_PRELOAD": "/x"}
		}), some, some, `process { commands = ["*"] }`},
		"process: a capability":       {abi.ModuleProcess, abi.FuncProcessStart, isolated(func(r *wasmnodev1.ProcessStartRequest) { r.AddCapabilities = []string{"net_raw"} }), any, any, `process { capabilities = ["net_raw"] }`},
		"process: a mount":            {abi.ModuleProcess, abi.FuncProcessStart, isolated(func(r *wasmnodev1.ProcessStartRequest) { r.Mounts = image }), any, any, `process { mounts = ["r:/srv/images"] }`},
		"process: a root":             {abi.ModuleProcess, abi.FuncProcessStart, isolated(func(r *wasmnodev1.ProcessStartRequest) { r.Root = "/srv/images" }), any, any, `process { mounts = ["r:/srv/images"] }`},
		"process: the node's network": {abi.ModuleProcess, abi.FuncProcessStart, start(func(r *wasmnodev1.ProcessStartRequest) { r.Network = hostNetwork }), any, any, `process { host_network = true }`},
		"process: a namespace":        {abi.ModuleProcess, abi.FuncProcessStart, start(func(r *wasmnodev1.ProcessStartRequest) { r.Network, r.NetworkNamespace = namespaceNetwork, app }), any, any, `net { namespaces = ["` + outside + `"] }`},
		"process: a helper":           {abi.ModuleProcess, abi.FuncProcessRun, &wasmnodev1.ProcessRunRequest{Command: "/bin/ls", Args: []string{"/"}}, some, some, `process { helper "/bin/ls" { args = ["/"] } }`},
		"process: no helper":          {abi.ModuleProcess, abi.FuncProcessRun, &wasmnodev1.ProcessRunRequest{Command: "/bin/ls"}, some, any, `process { helper "/bin/ls" { } }`},

		"net: an address": {abi.ModuleNet, abi.FuncNetDial, &wasmnodev1.NetDialRequest{Address: "10.0.0.1:80"}, some, some, `net { addresses = ["10.0.0.1:80"] }`},
		"net: a socket":   {abi.ModuleNet, abi.FuncNetDial, &wasmnodev1.NetDialRequest{Socket: socket}, some, some, `net { sockets = ["` + socket + `"] }`},
		"net: nothing":    {abi.ModuleNet, abi.FuncNetDial, &wasmnodev1.NetDialRequest{Socket: socket}, none, none, `net { sockets = ["` + socket + `"] }`},

		"http: a request": {abi.ModuleHTTP, abi.FuncHTTPRequest, &wasmnodev1.HttpRequest{Method: "POST", Url: "http://other/x"}, some, some, `http { endpoint "http://other:80" { methods = ["POST"] paths = ["/x"] } }`},
		"http: nothing":   {abi.ModuleHTTP, abi.FuncHTTPRequest, &wasmnodev1.HttpRequest{Method: "GET", Url: "http://other/x"}, some, none, `http { endpoint "http://other:80" { paths = ["/x"] } }`},

		"kv: set":    {abi.ModuleKV, abi.FuncKVSet, &wasmnodev1.KvSetRequest{Key: "k"}, some, none, `kv { enabled = true }`},
		"kv: get":    {abi.ModuleKV, abi.FuncKVGet, &wasmnodev1.KvGetRequest{Key: "k"}, some, none, `kv { enabled = true }`},
		"kv: delete": {abi.ModuleKV, abi.FuncKVDelete, &wasmnodev1.KvDeleteRequest{Key: "k"}, some, none, `kv { enabled = true }`},
		"kv: list":   {abi.ModuleKV, abi.FuncKVList, &wasmnodev1.KvListRequest{}, some, none, `kv { enabled = true }`},

		"workload: a command":  {abi.ModuleWorkload, abi.FuncWorkloadExec, &wasmnodev1.WorkloadExecRequest{Command: "/bin/ls"}, some, some, `process { commands = ["/bin/ls"] }`},
		"workload: no command": {abi.ModuleWorkload, abi.FuncWorkloadExec, &wasmnodev1.WorkloadExecRequest{Command: "/bin/ls"}, some, none, `process { commands = ["/bin/ls"] }`},
	}
}

// TestWhatIsNotGrantedIsToldInThreePlaces: what a call about a task ends with is the task's event. Files
// are in TestAFileThatIsNotGrantedIsRefusedAndToldWithItsGrant.
func TestWhatIsNotGrantedIsToldInThreePlaces(t *testing.T) {
	outside := t.TempDir()
	put(t, outside, "app.wasm", program())
	for name, c := range lackingUses(outside) {
		t.Run(name, func(t *testing.T) {
			w, scope := newWorld(t, host.Limits{}), isolatedScope(t)
			scope.Config.Network = &wasmnodev1.TaskNetwork{Mode: "bridge", Namespace: "/run/netns/of-the-group"}
			p := w.ready(t, keepingToItself(c.module, c.function, c.request), c.before)
			p.Grant(t.Context(), c.now)
			fix := `plugin "test" { grant { ` + c.fix + ` } }`

			out, err := p.Call(t.Context(), abi.OpDriverStartTask, nil, scope)
			require.NoError(t, err)
			refused := answeredError(t, out)
			require.Equal(t, abi.PermissionDenied, refused.Code, refused.Message)
			require.Contains(t, refused.Message, ": add "+fix, "what the guest is told")

			require.Equal(t, []string{refused.Message}, p.Stats().NotGranted, "what plugin status tells")
			require.Equal(t, []string{fix}, p.Stats().WouldGrant)

			_, err = p.Call(t.Context(), abi.OpDriverRecoverTask, nil, scope)
			require.EqualError(t, err, "the engine is not there ("+refused.Message+")", "what the task's event tells, though the plugin does not")
			require.Equal(t, abi.Unavailable, abi.CodeOf(err))
			require.Equal(t, []string{refused.Message}, p.Stats().NotGranted, "once")
		})
	}
}

// TestEveryFunctionThatNeedsAGrantIsInTheTable: a capability that is added is decided about here.
func TestEveryFunctionThatNeedsAGrantIsInTheTable(t *testing.T) {
	free := map[string]string{
		abi.ModuleLog: "it writes to the node's log", abi.ModuleTask: "it is about the call's task", abi.ModuleStream: "it opens nothing",
		abi.ModuleExec: "who asks for the command has opened its streams",
		abi.ModuleProcess + " " + abi.FuncProcessSupport: "it tells what the node can do",
		abi.ModuleHTTP + " " + abi.FuncHTTPResponse:      "it is about a request that was granted",
		abi.ModuleHTTP + " " + abi.FuncHTTPTrailers:      "likewise",
	}
	for _, function := range []string{abi.FuncWorkloadSignal, abi.FuncWorkloadStop, abi.FuncWorkloadWait, abi.FuncWorkloadStats, abi.FuncWorkloadInspect} {
		free[abi.ModuleWorkload+" "+function] = "the workload's start was granted"
	}
	told := map[string]bool{}
	for _, c := range lackingUses("/outside") {
		told[c.module+" "+c.function] = true
	}
	for module, functions := range host.Functions() {
		for _, function := range functions {
			name := module + " " + function
			require.True(t, told[name] || free[name] != "" || free[module] != "", "%s needs a grant, or a reason why not", name)
		}
	}
}

// TestAnEventHasARefusalOnce has the guest hand on what it was told.
func TestAnEventHasARefusalOnce(t *testing.T) {
	w, scope := newWorld(t, host.Limits{}), taskScope(t)
	message := mustMarshal(shell("exit 0"))
	wrap := []byte{0xa7} // the status's lower half is the answer's length
	m := guest(message, map[string][]byte{abi.OpDriverStartTask: modtest.Code(
		modtest.I32Const(messageAt), modtest.I32Const(int32(len(message))), modtest.Call(fnStart), wrap, modtest.Set(1),
		modtest.I32Const(inputAt), modtest.Call(fnResult),
		modtest.I32Const(inputAt), modtest.Get(1), modtest.Call(fnOutput), modtest.I32Const(1),
	)})
	m.Imports[fnStart].Module, m.Imports[fnStart].Name = abi.ModuleProcess, abi.FuncProcessStart
	p := w.ready(t, m.Bytes(), host.Grants{Process: host.ProcessGrant{Commands: []string{"/other"}}})
	_, err := p.Call(t.Context(), abi.OpDriverStartTask, nil, scope)
	require.EqualError(t, err, `command /bin/sh is not granted: add plugin "test" { grant { process { commands = ["/bin/sh"] } } }`)
}
