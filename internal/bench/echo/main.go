// Command echo is the peer's half of the echo benchmark: a HashiCorp go-plugin
// plugin that answers over gRPC with what it was sent.
package main

import (
	"github.com/hashicorp/go-plugin"

	"github.com/wasmnode/wasmnode/internal/bench/echoplugin"
)

func main() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: echoplugin.Handshake,
		Plugins:         echoplugin.Plugins,
		GRPCServer:      plugin.DefaultGRPCServer,
	})
}
