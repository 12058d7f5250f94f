package process_test

import (
	"cmp"
	"context"
	"strings"
	"testing"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
	"github.com/wasmnode/wasmnode/sdk/go/process"
)

// probe is a driver whose fingerprint is what a helper says.
type probe struct {
	helper  process.Helper
	command process.Command // of its tasks
}

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
func (p probe) StartTask(ctx context.Context, _ *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	id, err := process.Start(ctx, &p.command)
	return &driver.TaskHandle{WorkloadId: id}, nil, err
}

func TestATestAnswersForHelpers(t *testing.T) {
	helper := process.Helper{Command: "/usr/bin/engine", Args: []string{"version"}}
	node := drivertest.New(t, func() driver.Driver { return probe{helper: helper} })
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
	node := drivertest.New(t, func() driver.Driver { return probe{helper: helper} })
	node.OnHelper(func(*process.Helper) (*process.Ended, error) { return new(process.Ended), nil })
	return node
}

// machine is a driver whose tasks have processes beside their own.
type machine struct {
	probe
	names []string // in the order of their start
}

func (m machine) StartTask(ctx context.Context, _ *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	h := &driver.TaskHandle{}
	for _, name := range m.names {
		id, err := process.Start(ctx, &process.Command{Command: "/bin/sh", Isolation: process.IsolationNone, Name: name})
		if err != nil {
			return nil, nil, err
		}
		if name == "" {
			h.WorkloadId = id
		}
	}
	return h, nil, nil
}

func TestATestSeesWhatADriverStartsBesideATasksOwnProcess(t *testing.T) {
	start := func(names ...string) (*drivertest.Node, error) {
		node := drivertest.New(t, func() driver.Driver { return machine{names: names} })
		_, _, err := node.StartTask(node.Task("{}"))
		return node, err
	}
	node, err := start("virtiofsd-1", "swtpm", "")
	expect.NoError(t, err)
	expect.Equal(t, len(node.Processes()), 3)
	expect.Equal(t, node.Processes()[1].Name, "swtpm")
	for code, names := range map[abi.Code][]string{
		abi.InvalidArgument:   {"Virtiofsd"},
		abi.AlreadyExists:     {"a", "a"},
		abi.ResourceExhausted: {"a", "b", "c", "d", "e", "f", "g", "h", "i"},
	} {
		_, err := start(names...)
		expect.Code(t, err, code)
	}
}

func TestATestNodeRefusesTheRootsThatEveryNodeRefuses(t *testing.T) {
	many := func(n int) (mounts []*process.Mount) {
		for i := range n {
			mounts = append(mounts, &process.Mount{Target: "/m/" + string(rune('a'+i)), Source: "local"})
		}
		return mounts
	}
	long := strings.Repeat("x", 4095)
	for name, c := range map[string]struct {
		command process.Command
		refused bool
	}{
		"an image":          {process.Command{Root: "/srv/image", ReadOnlyRoot: true, Mounts: []*process.Mount{{Target: "/tmp", Tmpfs: true}}}, false},
		"1,024 mounts":      {process.Command{Mounts: many(1024)}, false},
		"1,025 mounts":      {process.Command{Mounts: many(1025)}, true},
		"a long path":       {process.Command{Mounts: []*process.Mount{{Target: long, Source: long}}}, false},
		"a longer one":      {process.Command{Mounts: []*process.Mount{{Target: "x", Source: "x" + long}}}, true},
		"over /proc":        {process.Command{Mounts: []*process.Mount{{Target: "a/../proc/x", Source: "local"}}}, true},
		"over the root":     {process.Command{Mounts: []*process.Mount{{Target: "..", Source: "local"}}}, true},
		"no source":         {process.Command{Mounts: []*process.Mount{{Target: "/x"}}}, true},
		"two at one target": {process.Command{Mounts: []*process.Mount{{Target: "/x", Tmpfs: true}, {Target: "x", Source: "local"}}}, true},
		"no root":           {process.Command{ReadOnlyRoot: true}, true},
		"no isolation":      {process.Command{Root: "/srv/image", Isolation: process.IsolationNone}, true},
	} {
		t.Run(name, func(t *testing.T) {
			command := c.command
			command.Command, command.Isolation = "/bin/sh", cmp.Or(command.Isolation, process.IsolationFull)
			node := drivertest.New(t, func() driver.Driver { return probe{command: command} })
			_, _, err := node.StartTask(node.Task(`{}`))
			if !c.refused {
				expect.NoError(t, err)
				expect.Equal(t, node.Processes()[0].Root, command.Root)
				return
			}
			expect.Code(t, err, abi.InvalidArgument)
		})
	}
}
