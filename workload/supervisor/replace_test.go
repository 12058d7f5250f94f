package supervisor_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/supervisor"
)

func TestASupervisorThatCouldNotBeReplacedStillRunsCommands(t *testing.T) {
	dir := t.TempDir()
	server, err := supervisor.NewServer(supervisor.ServerConfig{
		Logger: hclog.NewNullLogger(), Workloads: commands{run: echo}, Dir: supervisor.Results(dir), Version: "1.2.3", IdleTime: time.Hour,
		MayReplace: func(string) error { return nil },
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	serve := func() {
		l, err := supervisor.Listen(supervisor.Socket(dir))
		require.NoError(t, err)
		go func() { ended <- server.Serve(ctx, l) }()
	}
	serve()
	require.Equal(t, http.StatusOK, askForReplacement(t, dir))
	var next *supervisor.Replacement
	require.ErrorAs(t, <-ended, &next)
	require.Equal(t, "/opt/newer", next.Program)

	serve() // as whoever cannot become that program does
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	var out bytes.Buffer
	_, err = connect(t, dir, nil).Exec(t.Context(), "shell", &workload.ExecSpec{Command: "x", Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: io.Discard})
	require.NoError(t, err)
	require.Equal(t, "hello", out.String())
}

// askForReplacement returns the status that it is answered with.
func askForReplacement(t *testing.T, dir string) int {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", supervisor.Socket(dir))
	}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Post("http://supervisor/v1/replace", "application/json", strings.NewReader(`{"Program": "/opt/newer"}`))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}
