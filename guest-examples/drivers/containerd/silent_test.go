package main

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

// silence accepts connections and answers nothing, as a containerd does that hangs.
func silence(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(io.Discard, conn) }()
	}
}

// What the node would have to cut off it takes for the plugin's fault, and quarantines it in the end.
func TestAContainerdThatDoesNotAnswerIsNoFaultOfTheDriver(t *testing.T) {
	for _, d := range []*time.Duration{
		&patience.fingerprint, &patience.stop, &patience.signal, &patience.stats, &patience.remove, &patience.recover,
	} {
		before := *d
		*d /= 200
		t.Cleanup(func() { *d = before })
	}
	before := patience.start
	patience.start = 300 * time.Millisecond
	t.Cleanup(func() { patience.start = before })
	n := newNode(t, "")
	go silence(n.Listen("/run/containerd/containerd.sock"))
	f, err := n.Fingerprint()
	require.NoError(t, err)
	require.Equal(t, driver.Unhealthy, f.Health)
	require.Contains(t, f.Description, "containerd does not answer version.v1.Version/Version within ")
	task, handle := n.Task(`{"image": "i:1"}`), handle("c")
	for name, operation := range map[string]struct {
		do     func() error
		method string
	}{
		"start":   {func() error { _, _, err := n.StartTask(task); return err }, "namespaces.v1.Namespaces/Create"},
		"recover": {func() error { _, err := n.RecoverTask(task, handle); return err }, "tasks.v1.Tasks/Get"},
		"stop":    {func() error { _, err := n.StopTask(task, handle, "", time.Millisecond); return err }, "tasks.v1.Tasks/Kill"},
		"signal":  {func() error { _, err := n.SignalTask(task, handle, "SIGHUP"); return err }, "tasks.v1.Tasks/Kill"},
		"inspect": {func() error { _, err := n.InspectTask(task, handle); return err }, "containers.v1.Containers/Get"},
		"stats":   {func() error { _, err := n.TaskStats(task, handle); return err }, "tasks.v1.Tasks/Metrics"},
		"destroy": {func() error { return n.DestroyTask(task, handle, true) }, "tasks.v1.Tasks/Kill"},
	} {
		err := operation.do()
		require.ErrorContains(t, err, "containerd does not answer "+operation.method+" within ", name)
		require.Equal(t, abi.DeadlineExceeded, abi.CodeOf(err), name)
		require.True(t, abi.IsRecoverable(err), name)
	}
}
