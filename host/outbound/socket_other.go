//go:build !linux

package outbound

import (
	"context"
	"net"

	"github.com/wasmnode/wasmnode/abi"
)

// Socket refuses: only Linux opens a socket without following links.
func Socket(context.Context, string) (net.Conn, error) {
	return nil, abi.NewError(abi.Unimplemented, "unix sockets are for nodes on Linux")
}

// SocketBelow refuses, likewise.
func SocketBelow(ctx context.Context, _, path string) (net.Conn, error) { return Socket(ctx, path) }
