package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/host"
)

func TestBoundsOfTheClient(t *testing.T) {
	for want, spoil := range map[string]func(*Client){
		"client.gc_max_allocs: 0 is less than 1":                                   func(c *Client) { c.GCMaxAllocs = 0 },
		"client.gc_parallel_destroys: -1 is less than 1":                           func(c *Client) { c.GCParallel = -1 },
		"client.gc_interval: -1s is not positive":                                  func(c *Client) { c.GCInterval = -time.Second },
		"client.artifact.max_size: 0 is less than 1":                               func(c *Client) { c.Artifact.MaxSize = 0 },
		"client.artifact.max_files: -1 is less than 1":                             func(c *Client) { c.Artifact.MaxFiles = -1 },
		"client.template.wait: min 2s is greater than max 1s":                      func(c *Client) { c.Templates.Wait = Wait{2 * time.Second, time.Second} },
		"client.template.wait_bounds: it can't be negative: min is 0s and max -1s": func(c *Client) { c.Templates.WaitBounds.Max = -time.Second },
		"client.artifact.timeout: 0s is not positive":                              func(c *Client) { c.Artifact.Timeout = 0 },
		"client.gc_disk_usage_threshold: 0 is not a percentage above 0":            func(c *Client) { c.GCDiskUsage = 0 },
		"client.gc_inode_usage_threshold: 100.5 is not a percentage above 0":       func(c *Client) { c.GCInodeUsage = 100.5 },
	} {
		c := Default()
		spoil(&c.Client)
		require.EqualError(t, c.Validate(), want)
	}
	require.NoError(t, Default().Validate())
}

func TestWhoseSignaturesAreTrusted(t *testing.T) {
	for want, keys := range map[string][]string{
		`trusted_keys: "a.pub" is not an absolute path`:                                      {"/b.pub", "a.pub"},
		"require_signed: trusted_keys names no public key, so that no plugin would be taken": nil,
	} {
		c := Default()
		c.RequireSigned, c.TrustedKeys = true, keys
		require.EqualError(t, c.Validate(), want)
	}
}

func TestWhichFileIsMeantIsClear(t *testing.T) {
	digest := strings.Repeat("0a", 32)
	for want, plugins := range map[string]map[string]Plugin{
		"": {"a": {File: "b.wasm"}, "b": {File: "c.wasm"}, "d": {SHA256: digest, File: "b.wasm"}, "e": {}},
		`plugin "a": file: "x/a.wasm" is not the name of a file in the plugin directory that ends in .wasm`: {"a": {File: "x/a.wasm"}},
		`plugin "a": file: "a" is not the name of a file in the plugin directory that ends in .wasm`:        {"a": {File: "a"}},
		`plugin "a": file: ".a.wasm" is not the name of a file in the plugin directory that ends in .wasm`:  {"a": {File: ".a.wasm"}},
		`plugin "b": file: "b.wasm" is plugin "a" already, and a file is one plugin`:                        {"a": {File: "b.wasm"}, "b": {}},
	} {
		c := Default()
		c.Plugins = plugins
		if want == "" {
			require.NoError(t, c.Validate())
			continue
		}
		require.EqualError(t, c.Validate(), want)
	}
}

func TestAnUnclearPermissionForProcessesIsRefused(t *testing.T) {
	check := func(g host.ProcessGrant) error {
		c := Default()
		c.Plugins = map[string]Plugin{"p": {Grant: host.Grants{Process: g}}}
		return c.Validate()
	}
	require.NoError(t, check(host.ProcessGrant{}))
	require.NoError(t, check(host.ProcessGrant{Commands: []string{"*"}, Users: []string{"*"}}))
	require.NoError(t, check(host.ProcessGrant{Commands: []string{"/bin/sleep", "/usr/bin/*", "/*"}, Users: []string{"nobody", "web:www"}, Isolation: "full"}))
	for _, command := range []string{"", "sleep", "/usr/bin/", "/usr/*/sleep", "/usr/bin/s*", "**", "/**", "/usr/bin/**", "/", "usr/*", "*/x", "/usr/../bin/*", "//*", "/bin/[a]"} {
		require.ErrorContains(t, check(host.ProcessGrant{Commands: []string{command}}), "grant.process.commands: ", command)
	}
	for _, user := range []string{"", "no body", "www*", "**"} {
		require.ErrorContains(t, check(host.ProcessGrant{Users: []string{user}}), "grant.process.users: ", user)
	}
	require.NoError(t, check(host.ProcessGrant{Commands: []string{"*"}, Capabilities: []string{"net_raw", "sys_ptrace"}}))
	for _, capability := range []string{"", "*", "all", "NET_RAW", "cap_net_raw", "net"} {
		require.ErrorContains(t, check(host.ProcessGrant{Capabilities: []string{capability}}), "grant.process.capabilities: ", capability)
	}
	require.NoError(t, check(host.ProcessGrant{Commands: []string{"*"}, Isolation: "paths", Paths: []string{"rx:/usr", "rwcx:/"}}))
	for _, path := range []string{"", "/usr", "r:usr", "d:/usr", ":/usr", "r:/usr/", "r:/a*", "r:/a/../b"} {
		require.ErrorContains(t, check(host.ProcessGrant{Isolation: "paths", Paths: []string{path}}), "grant.process.paths: ", path)
	}
	require.NoError(t, check(host.ProcessGrant{Commands: []string{"*"}, Mounts: []string{"r:/srv/images", "rw:/srv/data"}}))
	require.ErrorContains(t, check(host.ProcessGrant{Mounts: []string{"rx:/srv"}}), "grant.process.mounts: ")
	require.ErrorContains(t, check(host.ProcessGrant{Paths: []string{"r:/usr"}}), `grant.process.paths: they are for isolation = "paths"`)
	require.NoError(t, check(host.ProcessGrant{Helpers: []host.HelperGrant{{Command: "/bin/x", Args: []string{"-a", "*", "", "..."}, User: "a:b", Env: map[string]string{"A_1": ""}}}}))
	for _, helper := range []host.HelperGrant{
		{Command: "x"}, {Command: "/"}, {Command: "/bin/*"}, {Command: "*"}, {Command: "/x", Args: []string{"...", "x"}}, {Command: "/x", Args: []string{"a\x00"}},
		{Command: "/x", User: "*"}, {Command: "/x", User: "a b"}, {Command: "/x", Env: map[string]string{"A=B": ""}}, {Command: "/x", Env: map[string]string{"A": "\x00"}},
	} {
		require.ErrorContains(t, check(host.ProcessGrant{Helpers: []host.HelperGrant{helper}}), "grant.process.helper: ", "%v", helper)
	}
	require.ErrorContains(t, check(host.ProcessGrant{Isolation: "full", Helpers: []host.HelperGrant{{Command: "/x"}}}), `isolation = "full" refuses`)
}

func TestAnUnclearPermissionToConnectIsRefused(t *testing.T) {
	check := func(net host.NetGrant, endpoints ...host.HTTPEndpoint) error {
		c := Default()
		c.Plugins = map[string]Plugin{"p": {Grant: host.Grants{Net: net, HTTP: host.HTTPGrant{Endpoints: endpoints}}}}
		return c.Validate()
	}
	require.NoError(t, check(host.NetGrant{Addresses: []string{"10.0.0.7:5432", "db.internal:*", "[::1]:80"}, Sockets: []string{"/run/x.sock", "/srv/*/x.sock"}},
		host.HTTPEndpoint{Endpoint: "unix:/run/docker.sock", Methods: []string{"*"}, Paths: []string{"/"}},
		host.HTTPEndpoint{Endpoint: "https://a", Paths: []string{"/v*/x"}}))
	require.ErrorContains(t, check(host.NetGrant{Addresses: []string{"*:80"}}), `grant.net.addresses: "*:80"`)
	require.ErrorContains(t, check(host.NetGrant{Sockets: []string{"x.sock"}}), `grant.net.sockets: "x.sock"`)
	for key, e := range map[string]host.HTTPEndpoint{
		`http.endpoint: "a"`:            {Endpoint: "a", Paths: []string{"/"}},
		`http.endpoint.methods: "get"`:  {Endpoint: "http://a", Methods: []string{"get"}, Paths: []string{"/"}},
		`http.endpoint.paths: "/../x"`:  {Endpoint: "http://a", Paths: []string{"/../x"}},
		`http.endpoint: "http://a" has`: {Endpoint: "http://a"},
	} {
		require.ErrorContains(t, check(host.NetGrant{}, e), "grant."+key)
	}
}

func TestThePathsOfIsolatedTasksAreBelowTheRootsOfBoth(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"":                               {"/opt/tools": "/opt/tools", "/opt": "/usr/local"},
		`"opt" = "/opt": both have`:      {"opt": "/opt"},
		`"/" = "/node": both have`:       {"/": "/node"},
		`"/opt" = "/": both have`:        {"/opt": "/"},
		`"/opt/" = "/opt"`:               {"/opt/": "/opt"},
		`"/opt" = "/../opt"`:             {"/opt": "/../opt"},
		"a task has a /proc of its own":  {"/proc": "/proc/node"},
		"a task has a /local of its own": {"/opt": "/local"},
	} {
		c := Default()
		c.Client.ChrootEnv = env
		if want == "" {
			require.NoError(t, c.Validate())
			continue
		}
		require.ErrorContains(t, c.Validate(), "client.chroot_env: ")
		require.ErrorContains(t, c.Validate(), want)
	}
}

func TestFaultsOfTheServer(t *testing.T) {
	for want, change := range map[string]func(*Server){
		"server.job_gc_interval: 0s is not positive":         func(s *Server) { s.JobGCInterval = 0 },
		"server.job_gc_threshold: -1s is not positive":       func(s *Server) { s.JobGCThreshold = -time.Second },
		"server.batch_eval_gc_threshold: 0s is not positive": func(s *Server) { s.BatchEvalGCThreshold = 0 },
		"server.deployment_gc_threshold: 0s is not positive": func(s *Server) { s.DeploymentGCThreshold = 0 },
		"server.gc_max_size: 0 is less than 1":               func(s *Server) { s.GCMaxSize = 0 },
	} {
		c := Default()
		change(&c.Server)
		require.EqualError(t, c.Validate(), want)
	}
}
