package supervisor

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
)

func TestALostSupervisorIsToldOfWithoutItsAddress(t *testing.T) {
	c := NewClient(ClientConfig{Logger: hclog.NewNullLogger()})
	for name, test := range map[string]struct {
		err  error
		says string
		lost bool // workloads
	}{
		"asked":     {io.EOF, "EOF", true},
		"not there": {&net.OpError{Op: "dial", Net: "unix", Err: syscall.ECONNREFUSED}, "dial unix: connection refused", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.lost(t.Context(), &url.Error{Op: "Post", URL: "http://supervisor/v1/start", Err: test.err})
			require.EqualError(t, err, "the supervisor of workloads has ended: "+test.says)
			require.Equal(t, abi.Unavailable, abi.CodeOf(err))
			require.True(t, abi.IsRecoverable(err))
			if test.lost {
				require.ErrorIs(t, err, workload.ErrLost)
			} else {
				require.NotErrorIs(t, err, workload.ErrLost)
			}
		})
	}
}

// Who asked knows whether what else it started with the supervisor is wanted without that.
func TestAStartThatIsNotAnsweredIsNotSentAgain(t *testing.T) {
	dir := t.TempDir()
	l, err := Listen(Socket(dir))
	require.NoError(t, err)
	var starts atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/hello", func(w http.ResponseWriter, _ *http.Request) {
		assert.NoError(t, json.NewEncoder(w).Encode(Hello{Protocol: protocol}))
	})
	mux.HandleFunc("POST /v1/start", func(w http.ResponseWriter, _ *http.Request) {
		starts.Add(1)
		conn, _, err := http.NewResponseController(w).Hijack()
		assert.NoError(t, err)
		assert.NoError(t, conn.Close())
	})
	web := &http.Server{Handler: mux}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(l) }()
	c := NewClient(ClientConfig{Logger: hclog.NewNullLogger(), Socket: Socket(dir)})
	err = c.Start(t.Context(), &workload.Spec{ID: "a", Process: &workload.Process{}})
	require.ErrorIs(t, err, workload.ErrLost)
	require.NoError(t, c.Close())
	require.NoError(t, web.Close())
	require.ErrorIs(t, <-ended, http.ErrServerClosed)
	require.EqualValues(t, 1, starts.Load())
}
