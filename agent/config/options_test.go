package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What Nomad's options say of drivers holds: a driver that is denied is not there.
func TestOptionsOfNomadsAreDoneOrRefused(t *testing.T) {
	for name, c := range map[string]struct {
		options string
		want    func(*Client)
		warning string
		err     string
	}{
		"allowed":         {`"driver.allowlist" = "exec, docker"`, func(c *Client) { c.AllowedDrivers = []string{"exec", "docker"} }, "", ""},
		"denied":          {`"driver.denylist" = "raw_exec"`, func(c *Client) { c.BlockedDrivers = []string{"raw_exec"} }, "", ""},
		"an older word":   {`"driver.blacklist" = "raw_exec"`, func(c *Client) { c.BlockedDrivers = []string{"raw_exec"} }, "", ""},
		"the environment": {`"env.denylist" = "A,B"`, func(c *Client) { c.EnvDenylist = []string{"A", "B"} }, "", ""},
		"of a driver":     {`"driver.raw_exec.enable" = "1"`, func(*Client) {}, "client.options driver.raw_exec.enable has no effect: whom tasks may run as", ""},
		"of users":        {`"user.denylist" = "root"`, nil, "", "client.options user.denylist cannot be done: whom tasks may run as"},
		"no text":         {`"a" = ["b"]`, nil, "", "client.options is a map of strings"},
		"no map":          {"", func(*Client) {}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			loaded := Default()
			err := loaded.Load(write(t, t.TempDir(), "a.hcl", "client {\n  options {\n    "+c.options+"\n  }\n}\n"))
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			want := Default()
			c.want(&want.Client)
			require.Equal(t, want.Client, loaded.Client)
			if c.warning == "" {
				require.Empty(t, loaded.Warnings)
			} else {
				require.Len(t, loaded.Warnings, 1)
				require.Contains(t, loaded.Warnings[0], c.warning)
			}
		})
	}
}

// Certificates may be those of the connections between Nomad's servers.
func TestCertificatesWithoutHTTPSAreWarnedOf(t *testing.T) {
	c := Default()
	require.NoError(t, c.Load(write(t, t.TempDir(), "a.hcl", "tls {\n  rpc = true\n  ca_file = \"/ca.pem\"\n}\n")))
	require.NoError(t, c.Validate())
	require.Equal(t, []string{"tls.rpc has no effect, and so have its files: the agent listens for HTTP only, and that is not encrypted without http = true"}, c.Warnings)

	c = Default()
	require.NoError(t, c.Load(write(t, t.TempDir(), "a.hcl", "tls {\n  ca_file = \"/ca.pem\"\n}\n")))
	require.ErrorContains(t, c.Validate(), "tls.ca_file: it has no effect without http = true")
}
