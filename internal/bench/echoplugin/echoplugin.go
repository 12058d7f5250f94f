// Package echoplugin is the contract between the benchmark and the echo plugin that
// it starts as a process: one gRPC method that returns its argument.
package echoplugin

import (
	"context"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	service = "wasmnode.bench.Echo"
	method  = "/" + service + "/Echo"
)

// Handshake is what both sides expect of each other.
var Handshake = plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "WASMNODE_BENCH", MagicCookieValue: "echo"}

// Plugins is the one plugin served, by name.
var Plugins = map[string]plugin.Plugin{"echo": &echo{}}

// Client calls the plugin.
type Client struct{ conn *grpc.ClientConn }

// Echo sends b to the plugin and returns its answer.
func (c *Client) Echo(ctx context.Context, b []byte) ([]byte, error) {
	out := new(wrapperspb.BytesValue)
	err := c.conn.Invoke(ctx, method, wrapperspb.Bytes(b), out)
	return out.GetValue(), err
}

type echo struct {
	plugin.NetRPCUnsupportedPlugin
}

func (*echo) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Echo", Handler: answer}},
	}, nil)
	return nil
}

func (*echo) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return &Client{conn: conn}, nil
}

func answer(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	in := new(wrapperspb.BytesValue)
	if err := decode(in); err != nil {
		return nil, err
	}
	return in, nil
}
