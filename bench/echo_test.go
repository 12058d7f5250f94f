package bench

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/bench/echoplugin"
)

// kilobyte is what is echoed.
var kilobyte = make([]byte, 1024)

// BenchmarkEcho sends one kibibyte to a plugin and back: through HashiCorp
// go-plugin over gRPC, and through a Go driver in wasmnode.
func BenchmarkEcho(b *testing.B) {
	b.Run("go-plugin-grpc", benchmarkGoPlugin)
	b.Run("wasmnode", benchmarkWasmnode)
}

func benchmarkGoPlugin(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "echo")
	out, err := exec.Command("go", "build", "-o", binary, "./echo").CombinedOutput()
	require.NoError(b, err, string(out))
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  echoplugin.Handshake,
		Plugins:          echoplugin.Plugins,
		Cmd:              exec.Command(binary),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger:           hclog.NewNullLogger(),
	})
	b.Cleanup(client.Kill)
	rpc, err := client.Client()
	require.NoError(b, err)
	raw, err := rpc.Dispense("echo")
	require.NoError(b, err)
	echo := raw.(*echoplugin.Client)
	for b.Loop() {
		answer, err := echo.Echo(b.Context(), kilobyte)
		if err != nil || len(answer) != len(kilobyte) {
			b.Fatalf("echo of %d bytes: %d bytes, %v", len(kilobyte), len(answer), err)
		}
	}
}
