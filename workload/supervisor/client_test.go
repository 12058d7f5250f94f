package supervisor

import (
	"io"
	"net"
	"net/url"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"
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
