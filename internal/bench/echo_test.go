package bench

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/bench/echoplugin"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/workload/wasi"
)

// kibibyte is what is echoed.
var kibibyte = make([]byte, 1024)

// BenchmarkEcho sends one kibibyte to a plugin and back: through HashiCorp go-plugin
// over gRPC, and to a Go driver in wasmnode. The second reports how many of its own
// calls one of the first takes.
func BenchmarkEcho(b *testing.B) {
	var peer float64 // nanoseconds a call
	b.Run("go-plugin-grpc", func(b *testing.B) {
		peer = measure(b, goPlugin(b))
	})
	b.Run("wasmnode", func(b *testing.B) {
		own := measure(b, wasmnode(b))
		if peer > 0 {
			b.ReportMetric(peer/own, "times-faster")
		}
	})
}

// measure calls echo until the benchmark has seen enough, and returns the
// nanoseconds that a call took.
func measure(b *testing.B, echo func([]byte) ([]byte, error)) float64 {
	b.ReportAllocs()
	for b.Loop() {
		answer, err := echo(kibibyte)
		if err != nil || len(answer) != len(kibibyte) {
			b.Fatalf("echo of %d bytes: %d bytes, %v", len(kibibyte), len(answer), err)
		}
	}
	return float64(b.Elapsed().Nanoseconds()) / float64(b.N)
}

// goPlugin starts the peer's plugin, a process.
func goPlugin(b *testing.B) func([]byte) ([]byte, error) {
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  echoplugin.Handshake,
		Plugins:          echoplugin.Plugins,
		Cmd:              exec.Command(build(b, "./echo", nil)),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger:           hclog.NewNullLogger(),
	})
	b.Cleanup(client.Kill)
	rpc, err := client.Client()
	require.NoError(b, err)
	raw, err := rpc.Dispense("echo")
	require.NoError(b, err)
	echo := raw.(*echoplugin.Client)
	return func(payload []byte) ([]byte, error) { return echo.Echo(b.Context(), payload) }
}

// wasmnode loads our plugin as the agent does, with every limit and the fuel meter.
func wasmnode(b *testing.B) func([]byte) ([]byte, error) {
	wasm, err := os.ReadFile(build(b, "./echodriver", []string{"GOOS=wasip1", "GOARCH=wasm"}, "-buildmode=c-shared"))
	require.NoError(b, err)
	e, err := sandbox.Open(sandbox.Config{})
	require.NoError(b, err)
	runtime := wasi.New(wasi.Config{Logger: hclog.NewNullLogger(), Engine: e})
	b.Cleanup(func() {
		require.NoError(b, runtime.Close())
		require.NoError(b, e.Close(context.Background()))
	})
	p, err := host.New(host.Config{Logger: hclog.NewNullLogger(), Engine: e, Workloads: runtime}).Load(b.Context(), host.NewSource(wasm))
	require.NoError(b, err)
	b.Cleanup(p.Close)
	require.NoError(b, p.Configure(b.Context(), host.Grants{}, []byte("{}")))
	task := &wasmnodev1.TaskConfig{Id: "task"}
	return func(payload []byte) ([]byte, error) {
		answer := &wasmnodev1.DriverRecoverTaskResponse{}
		request := &wasmnodev1.DriverRecoverTaskRequest{Task: task, Handle: &wasmnodev1.TaskHandle{DriverState: payload}}
		err := p.Invoke(b.Context(), host.Call{Op: abi.OpDriverRecoverTask, Request: request, Answer: answer})
		return answer.GetHandle().GetDriverState(), err
	}
}

// build compiles a package of this module and returns the file.
func build(b *testing.B, pkg string, env []string, flags ...string) string {
	b.Helper()
	file := filepath.Join(b.TempDir(), "out")
	cmd := exec.Command("go", append(append([]string{"build", "-trimpath", "-ldflags=-s -w"}, flags...), "-o", file, pkg)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(b, err, string(out))
	return file
}
