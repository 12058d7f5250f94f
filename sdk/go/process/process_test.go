package process_test

import (
	"context"
	"testing"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
	"github.com/wasmnode/wasmnode/sdk/go/process"
)

// probe is a driver whose fingerprint is what a helper says.
type probe struct{ helper process.Helper }

func (probe) Describe() *driver.Description {
	return &driver.Description{Name: "probe", Version: "1.0.0"}
}
func (probe) Configure(context.Context, []byte) error { return nil }
func (p probe) Fingerprint(ctx context.Context) (*driver.Fingerprint, error) {
	ended, err := process.Run(ctx, &p.helper)
	if err != nil {
		return nil, err
	}
	return &driver.Fingerprint{Health: driver.Healthy, Description: string(ended.Stdout)}, nil
}
func (probe) StartTask(context.Context, *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	return nil, nil, abi.NewError(abi.Unimplemented, "not this one")
}

func TestATestAnswersForHelpers(t *testing.T) {
	helper := process.Helper{Command: "/usr/bin/engine", Args: []string{"version"}}
	node := drivertest.New(t, func() driver.Driver { return probe{helper} })
	_, err := node.Fingerprint()
	expect.Code(t, err, abi.PermissionDenied)
	node.OnHelper(func(h *process.Helper) (*process.Ended, error) {
		return &process.Ended{Stdout: []byte(h.Args[0] + " 1.2.3")}, nil
	})
	fingerprint, err := node.Fingerprint()
	expect.NoError(t, err)
	expect.Equal(t, fingerprint.Description, "version 1.2.3")
	expect.Equal(t, len(node.Helpers()), 2)
	for _, beyond := range []process.Helper{{Command: "engine"}, {Command: "/x", TimeoutMs: 300_001}, {Command: "/x", Args: make([]string, 257)}} {
		_, err := nodeFor(t, beyond).Fingerprint()
		expect.Code(t, err, abi.InvalidArgument)
	}
}

// nodeFor is a node that grants everything.
func nodeFor(t *testing.T, helper process.Helper) *drivertest.Node {
	node := drivertest.New(t, func() driver.Driver { return probe{helper} })
	node.OnHelper(func(*process.Helper) (*process.Ended, error) { return new(process.Ended), nil })
	return node
}
