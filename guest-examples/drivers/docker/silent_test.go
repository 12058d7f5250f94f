package main

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
)

// silence accepts connections and answers nothing, as an engine does that hangs.
func silence(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(io.Discard, conn) }()
	}
}

// hurried has the driver wait for its engine for a two-hundredth of its time.
func hurried(t *testing.T) {
	t.Helper()
	all := []*time.Duration{
		&patience.fingerprint, &patience.start, &patience.request, &patience.stop, &patience.signal, &patience.stats, &patience.remove, &patience.recover,
	}
	for _, d := range all {
		before := *d
		*d /= 200
		t.Cleanup(func() { *d = before })
	}
}

// What the node would have to cut off it takes for the plugin's fault, and quarantines it in the end.
func TestAnEngineThatDoesNotAnswerIsNoFaultOfTheDriver(t *testing.T) {
	hurried(t)
	n := newNode(t, "")
	go silence(n.Listen("/run/docker.sock"))
	f, err := n.Fingerprint()
	require.NoError(t, err)
	require.Equal(t, driver.Unhealthy, f.Health)
	require.Regexp(t, `^Failed to connect to docker daemon: the engine does not answer GET /version within `, f.Description)
	task, handle := n.Task(`{"image": "i:1"}`), state{container: "c"}.handle()
	for name, operation := range map[string]struct {
		do   func() error
		says string
	}{
		"start": {func() error { _, _, err := n.StartTask(task); return err },
			"Failed to find docker image i:1: the engine does not answer GET /images/i:1/json"},
		"recover": {func() error { _, err := n.RecoverTask(task, handle); return err },
			"the engine does not answer GET /containers/c/json"},
		"stop": {func() error { _, err := n.StopTask(task, handle, "", 50*time.Millisecond); return err },
			"the engine does not answer POST /containers/c/kill"},
		"signal": {func() error { _, err := n.SignalTask(task, handle, "SIGHUP"); return err },
			"the engine does not answer POST /containers/c/kill"},
		"inspect": {func() error { _, err := n.InspectTask(task, handle); return err },
			"the engine does not answer GET /containers/c/json"},
		"stats": {func() error { _, err := n.TaskStats(task, handle); return err },
			"the engine does not answer GET /containers/c/stats"},
		"destroy": {func() error { return n.DestroyTask(task, handle, true) },
			"the engine does not answer DELETE /containers/c"},
		"exec": {func() error {
			_, err := n.Exec(task, handle, &drivertest.Command{Args: []string{"x"}})
			return err
		}, "the engine does not answer POST /containers/c/exec"},
		"create network": {func() error { _, err := n.CreateNetwork("a", "h"); return err }, "the engine does not answer GET /version"},
		"destroy network": {func() error { return n.DestroyNetwork("a") },
			"the engine does not answer GET /containers/nomad_init_a/json"},
	} {
		err := operation.do()
		require.ErrorContains(t, err, operation.says+" within ", name)
		require.Equal(t, abi.DeadlineExceeded, abi.CodeOf(err), name)
		require.True(t, abi.IsRecoverable(err), name)
	}
}

func TestARequestHasNoMoreTimeThanItsOperation(t *testing.T) {
	long, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	short, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		r    request
		most time.Duration // 0: there is no bound
	}{
		"one of an operation that may wait":    {context.Background(), request{}, patience.request},
		"one of a long operation":              {long, request{}, patience.request},
		"one of a short operation":             {short, request{}, time.Second},
		"one with a time of its own":           {long, request{timeout: 2 * time.Second, lasting: true}, 2 * time.Second},
		"that is longer than the operation's":  {short, request{timeout: 2 * time.Second}, time.Second},
		"a lasting one":                        {context.Background(), request{lasting: true}, 0},
		"a lasting one of an operation's time": {short, request{lasting: true}, time.Second},
	} {
		got := c.r.within(c.ctx)
		require.LessOrEqual(t, got, c.most, name)
		require.Equal(t, c.most == 0, got == 0, name)
		require.Greater(t, got, c.most-500*time.Millisecond, name)
	}
}
