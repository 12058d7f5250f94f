package agent

import (
	"os"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/internal/certtest"
)

func TestCertificatesAreReadAgainOnRequest(t *testing.T) {
	authority, dir := certtest.NewAuthority(t), t.TempDir()
	cert, key := authority.Write(t, dir, "127.0.0.1")
	var told conditions
	c, err := openCertificates(config.TLS{HTTP: true, CertFile: cert, KeyFile: key}, hclog.NewNullLogger(), &told)
	require.NoError(t, err)
	first := c.current
	require.NoError(t, c.reload())
	require.NotSame(t, first, c.current)

	second := c.current
	require.NoError(t, os.Remove(key))
	require.ErrorContains(t, c.reload(), "tls: cert_file, key_file: open "+key)
	require.Same(t, second, c.current)
	require.Len(t, told.list(), 1)
	require.Equal(t, conditionTLS, told.list()[0].Name)

	authority.Write(t, dir, "127.0.0.1")
	now, err := c.config().GetConfigForClient(nil)
	require.NoError(t, err)
	require.NotSame(t, second, now)
	require.Empty(t, told.list())
	again, err := c.config().GetConfigForClient(nil)
	require.NoError(t, err)
	require.Same(t, now, again, "what has not changed is not read again")
}
