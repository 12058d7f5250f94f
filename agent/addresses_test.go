package agent_test

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/agent/agenttest"
)

// The API listens on each address that is configured, on the same port, and is told by the first.
func TestTheAPIListensOnSeveralAddresses(t *testing.T) {
	o := bare(t, "addresses { http = \"{{ GetAllInterfaces | include `name` `^lo$` | include `type` `IPv4` | attr `address` }} 127.0.0.2\" }\nports { http = 0 }")
	o.HTTPAddr = ""
	first := agenttest.Run(t, o)
	port, ok := strings.CutPrefix(first, "127.0.0.1:")
	require.True(t, ok, first)
	for _, address := range []string{first, "127.0.0.2:" + port} {
		answer, err := http.Get("http://" + address + "/v1/agent/health")
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode, address)
	}
	_, err := net.Dial("tcp", "127.0.0.3:"+port)
	require.ErrorContains(t, err, "connection refused")
}

// One of them that others reach is as many as too many.
func TestEachOfSeveralAddressesNeedsProtection(t *testing.T) {
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	i := slices.IndexFunc(all, func(a net.Addr) bool { n, ok := a.(*net.IPNet); return ok && n.IP.IsGlobalUnicast() })
	if i < 0 {
		t.Skip("the machine has no address but its own")
	}
	outside := all[i].(*net.IPNet).IP.String()
	o := bare(t, "addresses { http = \"127.0.0.1 "+outside+"\" }\nports { http = 0 }")
	o.HTTPAddr = ""
	require.ErrorContains(t, agent.Run(t.Context(), o), "everybody who reaches "+net.JoinHostPort(outside, ""))
	_, err = agent.CheckConfiguration(o.ConfigPaths...)
	require.ErrorContains(t, err, "everybody who reaches "+net.JoinHostPort(outside, ""), "known before it listens")
}
