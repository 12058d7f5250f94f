package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestKeysOfAccess(t *testing.T) {
	for content, change := range map[string]func(*Config){
		`http_hosts = ["node7.example"]`:                                  func(c *Config) { c.Access.Hosts = []string{"node7.example"} },
		"bind_addr = \"unix:///run/w.sock\"\nhttp_socket_group = \"ops\"": func(c *Config) { c.BindAddr, c.Access.SocketGroup = "unix:///run/w.sock", "ops" },
		`insecure_api = true`:                                             func(c *Config) { c.Access.Insecure = true },
		`acl { enabled = true }`:                                          func(c *Config) { c.Access.ACL = true },
		"acl {\n token_min_expiration_ttl = \"1s\"\n token_max_expiration_ttl = \"720h\"\n}": func(c *Config) {
			c.Access.TokenLeastTTL, c.Access.TokenMostTTL = time.Second, 720*time.Hour
		},
		"tls {\n http = true\n ca_file = \"/ca\"\n cert_file = \"/cert\"\n key_file = \"/key\"\n verify_https_client = true\n}": func(c *Config) {
			c.Access.TLS = TLS{HTTP: true, CAFile: "/ca", CertFile: "/cert", KeyFile: "/key", VerifyHTTPSClient: true}
		},
		"limits {\n http_max_reads = 1\n http_max_bodies = 2\n http_max_streams = 3\n http_max_conns = 4\n}": func(c *Config) {
			c.Access.Limits = Limits{Reads: 1, Bodies: 2, Streams: 3, Connections: 4}
		},
	} {
		got, want := Default(), Default()
		change(&want)
		require.NoError(t, got.Load(write(t, t.TempDir(), "a.hcl", content)), content)
		require.Equal(t, want, got, content)
		require.NoError(t, got.Validate(), content)
	}
}

func TestFaultsOfAccess(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		`http_hosts: "https://x" is not the name of a host; it has no scheme and no port`: func(c *Config) { c.Access.Hosts = []string{"https://x"} },
		`http_hosts: "x:80" is not the name of a host; it has no scheme and no port`:      func(c *Config) { c.Access.Hosts = []string{"x:80"} },
		`http_hosts: "*" is not the name of a host; it has no scheme and no port`:         func(c *Config) { c.Access.Hosts = []string{"*"} },
		`http_hosts: "" is not the name of a host; it has no scheme and no port`:          func(c *Config) { c.Access.Hosts = []string{""} },
		`limits.http_max_streams: 0 is less than 1`:                                       func(c *Config) { c.Access.Limits.Streams = 0 },
		`tls: http = true needs cert_file and key_file`:                                   func(c *Config) { c.Access.TLS.HTTP = true },
		`tls.cert_file: it has no effect without http = true`:                             func(c *Config) { c.Access.TLS.CertFile = "/cert" },
		`tls.verify_https_client: it has no effect without http = true`:                   func(c *Config) { c.Access.TLS.VerifyHTTPSClient = true },
		`tls.key_file: "key" is not an absolute path`:                                     func(c *Config) { c.Access.TLS = TLS{HTTP: true, CertFile: "/cert", KeyFile: "key"} },
		`tls: verify_https_client = true needs ca_file, with the authorities of the clients' certificates`: func(c *Config) {
			c.Access.TLS = TLS{HTTP: true, CertFile: "/cert", KeyFile: "/key", VerifyHTTPSClient: true}
		},
		`bind_addr: "unix://run/w.sock": a socket's path is absolute, such as unix:///run/wasmnode.sock`: func(c *Config) { c.BindAddr = "unix://run/w.sock" },
		`bind_addr: a socket has no TLS: leave out tls { http = true }`: func(c *Config) {
			c.BindAddr, c.Access.TLS = "unix:///w", TLS{HTTP: true, CertFile: "/cert", KeyFile: "/key"}
		},
		`http_socket_group: there is no socket: bind_addr is "127.0.0.1"`:               func(c *Config) { c.Access.SocketGroup = "ops" },
		`acl.token_min_expiration_ttl: 0s is not positive`:                              func(c *Config) { c.Access.TokenLeastTTL = 0 },
		`acl.token_max_expiration_ttl: 59s is less than token_min_expiration_ttl, 1m0s`: func(c *Config) { c.Access.TokenMostTTL = 59 * time.Second },
	} {
		c := Default()
		spoil(&c)
		require.EqualError(t, c.Validate(), want)
	}
}
