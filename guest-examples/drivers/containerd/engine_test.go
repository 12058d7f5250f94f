package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/enginetest"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// on is a node of its own whose driver has a containerd.
func on(t *testing.T, e *enginetest.Containerd, settings string) *drivertest.Node {
	t.Helper()
	n := drivertest.New(t, func() driver.Driver { return &containerd{} })
	configure(t, n, e, settings)
	return n
}

func configure(t *testing.T, n *drivertest.Node, e *enginetest.Containerd, settings string) {
	t.Helper()
	require.NoError(t, n.Configure(`{"namespace": "`+e.Namespace+`"`+settings+`}`))
	go e.Proxy(n.Listen("/run/containerd/containerd.sock"))
}

// job is a task of the test image.
func job(arguments ...string) string {
	return `{"image": "` + enginetest.Image + `", "command": "/program", "args": ["` + strings.Join(arguments, `", "`) + `"]}`
}

func started(t *testing.T, n *drivertest.Node, task *driver.TaskConfig) *driver.TaskHandle {
	t.Helper()
	handle, _, err := n.StartTask(task)
	require.NoError(t, err)
	return handle
}

// waited is how a task ended.
func waited(t *testing.T, n *drivertest.Node, task *driver.TaskConfig, handle *driver.TaskHandle) *driver.ExitResult {
	t.Helper()
	result, _, err := n.WaitTask(task, handle)
	require.NoError(t, err)
	require.NotNil(t, result)
	return result
}

func TestWithARealContainerd(t *testing.T) {
	e := enginetest.NewContainerd(t)
	for name, test := range map[string]func(*testing.T, *enginetest.Containerd){
		"a container's life": aContainersLife,
	} {
		t.Run(name, func(t *testing.T) {
			defer e.RemoveAll(t) // what a test that fails has left is no other's
			test(t, e)
			require.Empty(t, e.Containers(t), "left over")
			require.Len(t, e.Control(t, "snapshots", "list"), 3+2, "the heading, and the layer of the image")
		})
	}
}

func aContainersLife(t *testing.T, e *enginetest.Containerd) {
	n := on(t, e, "")
	f, err := n.Fingerprint()
	require.NoError(t, err)
	require.Equal(t, driver.Healthy, f.Health, f.Description)
	task := n.Task(job("print", `out\n`, `err\n`, "3"))
	handle := started(t, n, task)
	require.Equal(t, []string{containerID(task)}, e.Containers(t))
	result := waited(t, n, task, handle)
	require.True(t, result.EqualVT(&driver.ExitResult{ExitCode: 3}), "%v", result)
	require.Equal(t, "out\n", n.Stdout())
	require.Equal(t, "err\n", n.Stderr())
	status, err := n.InspectTask(task, handle)
	require.NoError(t, err)
	require.Equal(t, driver.TaskExited, status.State)
	require.Positive(t, status.StartedAtNs)
	require.GreaterOrEqual(t, status.CompletedAtNs, status.StartedAtNs)
	require.NoError(t, n.DestroyTask(task, handle, false))
}

func TestCompiledWithARealContainerd(t *testing.T) {
	e := enginetest.NewContainerd(t)
	n := drivertest.NewCompiled(t, guestbuild.Plugin(t, "guest-examples/drivers/containerd"), nil)
	configure(t, n, e, "")
	task := n.Task(job("count", "2000", "1000", "end"))
	handle := started(t, n, task)
	require.Zero(t, waited(t, n, task, handle).ExitCode)
	require.NoError(t, n.DestroyTask(task, handle, false))
}
