package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// write makes a file in a directory.
func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestEveryKey(t *testing.T) {
	digest := strings.Repeat("0a", 32)
	cases := map[string]struct {
		content string
		want    func(*Config)
	}{
		"nothing":                 {"", func(*Config) {}},
		"name":                    {`name = "n"`, func(c *Config) { c.Name = "n" }},
		"region":                  {`region = "r"`, func(c *Config) { c.Region = "r" }},
		"datacenter":              {`datacenter = "d"`, func(c *Config) { c.Datacenter = "d" }},
		"data_dir":                {`data_dir = "/d"`, func(c *Config) { c.DataDir, c.PluginDir = "/d", "/d/plugins" }},
		"plugin_dir":              {`plugin_dir = "/p"`, func(c *Config) { c.PluginDir = "/p" }},
		"data_dir, plugin_dir":    {"plugin_dir = \"/p\"\ndata_dir = \"/d\"", func(c *Config) { c.DataDir, c.PluginDir = "/d", "/p" }},
		"bind_addr":               {`bind_addr = "0.0.0.0"`, func(c *Config) { c.BindAddr = "0.0.0.0" }},
		"log_level":               {`log_level = "debug"`, func(c *Config) { c.LogLevel = "debug" }},
		"log_json":                {`log_json = true`, func(c *Config) { c.LogJSON = true }},
		"require_pinned":          {`require_pinned = true`, func(c *Config) { c.RequirePinned = true }},
		"ports.http":              {"ports {\n http = 80\n}", func(c *Config) { c.HTTPPort = 80 }},
		"ports.http as a text":    {"ports {\n http = \"80\"\n}", func(c *Config) { c.HTTPPort = 80 }},
		"require_lock":            {`require_lock = true`, func(c *Config) { c.RequireLock = true }},
		"trusted_keys":            {`trusted_keys = ["/a.pub", "/b.pub"]`, func(c *Config) { c.TrustedKeys = []string{"/a.pub", "/b.pub"} }},
		"require_signed":          {"require_signed = true\ntrusted_keys = [\"/a.pub\"]", func(c *Config) { c.RequireSigned, c.TrustedKeys = true, []string{"/a.pub"} }},
		"client, empty":           {"client {}", func(*Config) {}},
		"client.node_class":       {"client {\n node_class = \"c\"\n}", func(c *Config) { c.Client.NodeClass = "c" }},
		"client.node_pool":        {"client {\n node_pool = \"p\"\n}", func(c *Config) { c.Client.NodePool = "p" }},
		"client.chroot_env":       {"client {\n chroot_env = { \"/opt\" = \"/opt/node\" }\n}", func(c *Config) { c.Client.ChrootEnv = map[string]string{"/opt": "/opt/node"} }},
		"client.meta":             {"client {\n meta = { \"a.b\" = \"c\" }\n}", func(c *Config) { c.Client.Meta = map[string]string{"a.b": "c"} }},
		"env_denylist":            {"client {\n env_denylist = [\"A\", \"B\"]\n}", func(c *Config) { c.Client.EnvDenylist = []string{"A", "B"} }},
		"disable_remote_exec":     {"client {\n disable_remote_exec = true\n}", func(c *Config) { c.Client.DisableRemoteExec = true }},
		"max_kill_timeout":        {"client {\n max_kill_timeout = \"1m\"\n}", func(c *Config) { c.Client.MaxKillTimeout = time.Minute }},
		"gc_max_allocs":           {"client {\n gc_max_allocs = 1\n}", func(c *Config) { c.Client.GCMaxAllocs = 1 }},
		"gc_disk_usage_threshold": {"client {\n gc_disk_usage_threshold = 99.5\n}", func(c *Config) { c.Client.GCDiskUsage = 99.5 }},
		"gc_inode_usage":          {"client {\n gc_inode_usage_threshold = 1\n}", func(c *Config) { c.Client.GCInodeUsage = 1 }},
		"gc_interval":             {"client {\n gc_interval = \"10m\"\n}", func(c *Config) { c.Client.GCInterval = 10 * time.Minute }},
		"gc_parallel_destroys":    {"client {\n gc_parallel_destroys = 8\n}", func(c *Config) { c.Client.GCParallel = 8 }},
		"artifact":                {"client {\n artifact {\n max_size = 1\n max_files = 2\n timeout = \"3s\"\n}\n}", func(c *Config) { c.Client.Artifact = Artifact{1, 2, 3 * time.Second} }},
		"template": {"client {\n template {\n function_denylist = [\"a\"]\n wait {\n min = \"1s\"\n max = \"2s\"\n}\n wait_bounds {\n min = \"3s\"\n}\n}\n}", func(c *Config) {
			c.Client.Templates = Templates{Wait{time.Second, 2 * time.Second}, Wait{Min: 3 * time.Second}, []string{"a"}}
		}},
		"template, as it was": {"client {\n template {\n function_blacklist = [\"a\"]\n}\n}", func(c *Config) { c.Client.Templates.Denied = []string{"a"} }},
		"reserved":            {"client {\n reserved {\n cpu = 1\n memory = 2\n disk = 3\n}\n}", func(c *Config) { c.Client.Reserved = Resources{1, 2, 3} }},
		"reserved lists":      {"client {\n reserved {\n reserved_ports = \"22\"\n cores = \"0-1\"\n}\n}", func(c *Config) { c.Client.ReservedPorts, c.Client.ReservedCores = "22", "0-1" }},
		"host_network": {"client {\n host_network \"a\" {\n cidr = \"10.0.0.0/8\"\n}\n host_network \"b\" {\n interface = \"eth0\"\n reserved_ports = \"1-2\"\n}\n}", func(c *Config) {
			c.Client.HostNetworks = map[string]HostNetwork{"a": {CIDR: "10.0.0.0/8"}, "b": {Interface: "eth0", ReservedPorts: "1-2"}}
		}},
		"host_volumes_dir": {"client {\n host_volumes_dir = \"/v\"\n host_volume_plugin_dir = \"/p\"\n}", func(c *Config) {
			c.Client.HostVolumesDir, c.Client.HostVolumePluginDir = "/v", "/p"
		}},
		"host_volume": {"client {\n host_volume \"a\" {\n path = \"/\"\n}\n host_volume \"b\" {\n path = \"/usr\"\n read_only = true\n}\n}", func(c *Config) {
			c.Client.HostVolumes = map[string]HostVolume{"a": {Path: "/"}, "b": {Path: "/usr", ReadOnly: true}}
		}},
		"drivers":                 {"client {\n drivers {\n allow = [\"a\"]\n block = [\"b\"]\n}\n}", func(c *Config) { c.Client.AllowedDrivers, c.Client.BlockedDrivers = []string{"a"}, []string{"b"} }},
		"null leaves the default": {"region = null\nclient {\n max_kill_timeout = null\n}", func(*Config) {}},
		"plugin_limits":           {"plugin_limits {\n memory = 1\n memory_all = 2\n cpu = 3\n}", func(c *Config) { c.PluginLimits = PluginLimits{1, 2, 3} }},
		"server, empty":           {"server {}", func(*Config) {}},
		"server": {
			"server {\n job_gc_interval = \"1s\"\n job_gc_threshold = \"2s\"\n eval_gc_threshold = \"3s\"\n batch_eval_gc_threshold = \"4s\"\n" +
				"deployment_gc_threshold = \"5s\"\n node_gc_threshold = \"6s\"\n gc_max_size = 7\n}",
			func(c *Config) {
				c.Server = Server{c.Server.EventBufferSize, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second, 6 * time.Second, 7, c.Server.Scheduler, "", nil}
			},
		},
		"oidc_issuer":   {"server {\n oidc_issuer = \"https://nomad.test/a\"\n}", func(c *Config) { c.Server.OIDCIssuer = "https://nomad.test/a" }},
		"plugin, empty": {"plugin \"p\" {}", func(c *Config) { c.Plugins["p"] = Plugin{} }},
		"plugin.sha256": {"plugin \"p\" {\n sha256 = \"" + digest + "\"\n}", func(c *Config) { c.Plugins["p"] = Plugin{SHA256: digest} }},
		"plugin.file":   {"plugin \"p\" {\n file = \"q.wasm\"\n}", func(c *Config) { c.Plugins["p"] = Plugin{File: "q.wasm"} }},
		"plugin.config": {
			"plugin \"p\" {\n config {\n a = 1\n b = { c = true }\n d \"e\" {\n f = [1.5]\n}\n}\n}",
			func(c *Config) {
				c.Plugins["p"] = Plugin{Config: map[string]any{
					"a": int64(1), "b": map[string]any{"c": true},
					"d": []any{map[string]any{"e": []any{map[string]any{"f": []any{1.5}}}}},
				}}
			},
		},
		"plugin.grant.fs": {
			"plugin \"p\" {\n grant {\n fs {\n read_only = [\"/a\"]\n read_write = [\"/b\"]\n}\n}\n}",
			func(c *Config) {
				grant := host.Grants{}
				grant.FS = host.FSGrant{ReadOnly: []string{"/a"}, ReadWrite: []string{"/b"}}
				c.Plugins["p"] = Plugin{Grant: grant}
			},
		},
		"plugin.grant.devices": {
			"plugin \"p\" {\n grant {\n devices {\n nodes = [\"/dev/bus/usb\", \"/dev/nvidia*\"]\n}\n}\n}",
			func(c *Config) {
				grant := host.Grants{}
				grant.Devices = host.DeviceGrant{Nodes: []string{"/dev/bus/usb", "/dev/nvidia*"}}
				c.Plugins["p"] = Plugin{Grant: grant}
			},
		},
		"plugin.grant.process": {
			"plugin \"p\" {\n grant {\n process {\n commands = [\"/bin/sleep\", \"/usr/bin/*\"]\n users = [\"nobody\"]\n capabilities = [\"net_raw\"]\n isolation = \"full\"\n}\n}\n}",
			func(c *Config) {
				grant := host.Grants{}
				grant.Process = host.ProcessGrant{Commands: []string{"/bin/sleep", "/usr/bin/*"}, Users: []string{"nobody"}, Capabilities: []string{"net_raw"}, Isolation: "full"}
				c.Plugins["p"] = Plugin{Grant: grant}
			},
		},
		"plugin.grant.process.paths": {
			"plugin \"p\" { grant { process { commands = [\"*\"] isolation = \"paths\" paths = [\"rx:/usr\"] mounts = [\"r:/srv/images\"] } } }",
			func(c *Config) {
				grant := host.Grants{}
				grant.Process = host.ProcessGrant{Commands: []string{"*"}, Isolation: "paths", Paths: []string{"rx:/usr"}, Mounts: []string{"r:/srv/images"}}
				c.Plugins["p"] = Plugin{Grant: grant}
			},
		},
		"plugin.grant.process.helper": {
			"plugin \"p\" { grant { process { helper \"/bin/a\" { args = [\"x\", \"*\"] user = \"nobody\" env = { A = \"b\" } } helper \"/bin/b\" { } } } }",
			func(c *Config) {
				grant := host.Grants{}
				grant.Process.Helpers = []host.HelperGrant{
					{Command: "/bin/a", Args: []string{"x", "*"}, User: "nobody", Env: map[string]string{"A": "b"}},
					{Command: "/bin/b"},
				}
				c.Plugins["p"] = Plugin{Grant: grant}
			},
		},
		"plugin.grant.kv": {
			"plugin \"p\" { grant { kv { enabled = true } } }",
			func(c *Config) { c.Plugins["p"] = Plugin{Grant: host.Grants{KV: host.KVGrant{Enabled: true}}} },
		},
		"plugin.grant.net": {
			"plugin \"p\" {\n grant {\n net {\n addresses = [\"db:5432\", \"127.0.0.1:*\"]\n sockets = [\"/run/x.sock\"]\n}\n}\n}",
			func(c *Config) {
				grant := host.Grants{}
				grant.Net = host.NetGrant{Addresses: []string{"db:5432", "127.0.0.1:*"}, Sockets: []string{"/run/x.sock"}}
				c.Plugins["p"] = Plugin{Grant: grant}
			},
		},
		"plugin.grant.http, on a line": {
			"plugin \"p\" { grant { http { endpoint \"unix:/run/docker.sock\" { methods = [\"POST\"] paths = [\"/v*/containers/\"] } endpoint \"http://a\" { paths = [\"/\"] } } } }",
			func(c *Config) {
				grant := host.Grants{}
				grant.HTTP.Endpoints = []host.HTTPEndpoint{
					{Endpoint: "unix:/run/docker.sock", Methods: []string{"POST"}, Paths: []string{"/v*/containers/"}},
					{Endpoint: "http://a", Paths: []string{"/"}},
				}
				c.Plugins["p"] = Plugin{Grant: grant}
			},
		},
		"plugin.grant.wasm": {
			"plugin \"p\" {\n grant {\n wasm {\n enabled = false\n directories = [\"/a\"]\n max_programs = 3\n}\n}\n}",
			func(c *Config) {
				c.Plugins["p"] = Plugin{Grant: host.Grants{Wasm: host.WasmGrant{Denied: true, Directories: []string{"/a"}, MaxPrograms: 3}}}
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, want := Default(), Default()
			c.want(&want)
			require.NoError(t, got.Load(write(t, t.TempDir(), "a.hcl", c.content)))
			require.Equal(t, want, got)
			require.NoError(t, got.Validate())
		})
	}
}

func TestFaultsOfFiles(t *testing.T) {
	cases := map[string]struct{ content, want string }{
		"syntax":              {`name = `, "a.hcl:1,8: Missing expression; Expected the start of an expression, but found the end of the file."},
		"unknown argument":    {`nmae = "x"`, `a.hcl:1,1: Unsupported argument; An argument named "nmae" is not expected here. Did you mean "name"?`},
		"unknown block":       {"clinet {}", `a.hcl:1,1: Unsupported block type; Blocks of type "clinet" are not expected here. Did you mean "client"?`},
		"unknown in a block":  {"client {\n reserved {\n  mem = 1\n}\n}", `a.hcl:3,3: Unsupported argument; An argument named "mem" is not expected here.`},
		"unknown in a plugin": {"plugin \"p\" {\n sha265 = \"x\"\n}", `a.hcl:2,2: Unsupported argument; An argument named "sha265" is not expected here. Did you mean "sha256"?`},
		"unknown grant":       {"plugin \"p\" {\n grant {\n nett {}\n}\n}", `a.hcl:3,2: Unsupported block type; Blocks of type "nett" are not expected here. Did you mean "net"?`},
		"argument twice":      {"name = \"a\"\nname = \"b\"", `a.hcl:2,1: Attribute redefined; The argument "name" was already set at a.hcl:1,1-5. Each argument may be set only once.`},
		"block twice":         {"client {}\nclient {}", `a.hcl:2,1: Duplicate client block; Only one client block is allowed. Another was defined at a.hcl:1,1-7.`},
		"plugin twice":        {"plugin \"p\" {}\nplugin \"p\" {}", `a.hcl:2,1: Duplicate plugin "p"; it is configured at a.hcl:1 already.`},
		"plugin of no name":   {"plugin {}", `a.hcl:1,8: Missing name for plugin; All plugin blocks must have 1 labels (name).`},
		"client, named":       {"client \"x\" {}", `a.hcl:1,8: Extraneous label for client; No labels are expected for client blocks.`},
		"mistyped":            {"ports {\n http = \"x\"\n}", `a.hcl:2,10: Unsuitable value type; Unsuitable value: a number is required`},
		"a fraction":          {"ports {\n http = 1.5\n}", `a.hcl:2,9: Unsuitable value type; Unsuitable value: value must be a whole number, between -9223372036854775808 and 9223372036854775807`},
		"mistyped list":       {"client {\n drivers {\n allow = \"a\"\n}\n}", `a.hcl:3,11: Unsuitable value type; Unsuitable value: list of string required, but have string`},
		"isolation":           {"plugin \"p\" {\n grant {\n process {\n isolation = \"some\"\n}\n}\n}", `a.hcl:4,14: Unsuitable isolation; it is "none", "paths" or "full".`},
		"isolation, a number": {"plugin \"p\" {\n grant {\n process {\n isolation = 1\n}\n}\n}", `a.hcl:4,14: Unsuitable isolation; it is "none", "paths" or "full".`},
		"duration":            {"client {\n max_kill_timeout = \"30\"\n}", `a.hcl:2,21: Unsuitable duration value; a duration looks like "30s", "5m" or "1h30m".`},
		"duration, a number":  {"client {\n max_kill_timeout = 30\n}", `a.hcl:2,21: Unsuitable duration value; a duration looks like "30s", "5m" or "1h30m".`},
		"a reference":         {`name = env.HOME`, `a.hcl:1,8: Variables not allowed; Variables may not be used here.`},
		"in a duration":       {"client {\n max_kill_timeout = x\n}", `a.hcl:2,21: Variables not allowed; Variables may not be used here.`},
		"in a plugin":         {"plugin \"p\" {\n config {\n a = b\n}\n}", `a.hcl:3,6: Variables not allowed; Variables may not be used here.`},
		"all of them":         {"nmae = \"x\"\nports {\n http = \"x\"\n}", "a.hcl:1,1: Unsupported argument; An argument named \"nmae\" is not expected here. Did you mean \"name\"?\na.hcl:3,10: Unsuitable value type; Unsuitable value: a number is required"},
		"deep":                {"name = " + strings.Repeat("[", hclvalue.MaxNesting+1), "a.hcl:1,108: More than 100 brackets within each other."},
		"too large":           {strings.Repeat("#", hclvalue.MaxBytes+1), "a.hcl:1,1: The file has more than 1048576 bytes."},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := write(t, dir, "a.hcl", c.content)
			got := Default()
			err := got.Load(path)
			require.Error(t, err)
			require.Equal(t, "configuration: "+c.want, strings.ReplaceAll(err.Error(), dir+"/", ""))
			require.Equal(t, Default(), got, "a faulty file changes nothing")
		})
	}
}

func TestLaterFilesWin(t *testing.T) {
	dir := t.TempDir()
	one := write(t, dir, "one", "name = \"one\"\nregion = \"one\"\ndata_dir = \"/one\"\nclient {\n node_class = \"one\"\n node_pool = \"one\"\n reserved {\n cpu = 1\n memory = 1\n}\n}\nplugin \"p\" {}")
	two := write(t, dir, "two", "name = \"two\"\ndata_dir = \"/two\"\nclient {\n node_pool = \"two\"\n reserved {\n cpu = 2\n}\n}\nplugin \"q\" {}")
	got := Default()
	require.NoError(t, got.Load(one, two))
	want := Default()
	want.Name, want.Region = "two", "one"
	want.DataDir, want.PluginDir = "/two", "/two/plugins"
	want.Client.NodeClass, want.Client.NodePool = "one", "two"
	want.Client.Reserved = Resources{CPU: 2, Memory: 1}
	want.Plugins = map[string]Plugin{"p": {}, "q": {}}
	require.Equal(t, want, got)
}

func TestAPluginIsConfiguredInOnePlace(t *testing.T) {
	dir := t.TempDir()
	one := write(t, dir, "one", `plugin "p" {}`)
	two := write(t, dir, "two", "\nplugin \"p\" {}")
	got := Default()
	err := got.Load(one, two)
	require.EqualError(t, err, "configuration: "+two+`:2,1: Duplicate plugin "p"; it is configured at `+one+`:1 already.`)
}

func TestFaultsOfAllFilesAreListed(t *testing.T) {
	dir := t.TempDir()
	one, two := write(t, dir, "one", "nmae = 1"), write(t, dir, "two", "region = [")
	got := Default()
	err := got.Load(one, two)
	require.ErrorContains(t, err, one+":1,1: ")
	require.ErrorContains(t, err, "\n"+two+":1,11: ")
}

func TestDirectories(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "20-last.hcl", `name = "last"`)
	write(t, dir, "10-first.hcl", "name = \"first\"\nregion = \"first\"")
	write(t, dir, ".#10-first.hcl", "an editor's")
	write(t, dir, "20-last.hcl~", "an editor's")
	write(t, dir, "README.md", "not a configuration")
	got := Default()
	require.NoError(t, got.Load(dir))
	require.Equal(t, "last", got.Name)
	require.Equal(t, "first", got.Region)

	empty := t.TempDir()
	require.EqualError(t, got.Load(empty), "configuration: "+empty+": no file in it ends in .hcl or .json")
	missing := filepath.Join(empty, "missing.hcl")
	require.EqualError(t, got.Load(missing), "configuration: stat "+missing+": no such file or directory")
	require.NoError(t, os.Mkdir(filepath.Join(empty, "a.hcl"), 0o700))
	require.ErrorContains(t, got.Load(empty), "a.hcl: is a directory")
}

func TestLoadOverNothing(t *testing.T) {
	var c Config
	require.NoError(t, c.Load(write(t, t.TempDir(), "a.hcl", `plugin "p" {}`)))
	require.Len(t, c.Plugins, 1)
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte("name = \"n\"\nports {\n http = 1\n}\nclient {\n max_kill_timeout = \"1m\"\n meta = {}\n drivers {\n allow = []\n}\n}"))
	f.Add([]byte("plugin \"p\" {\n config {\n a = 1e999\n b \"c\" {}\n}\n grant {\n fs {\n read_only = [\"/\"]\n}\n wasm {\n max_programs = 1\n}\n}\n}"))
	f.Add([]byte("plugin \"p\" {}\nplugin \"p\" {}"))
	f.Add([]byte(`{"ports": [{"http": 1}], "client": {"meta": [{"a": "b"}]}, "plugin": {"p": {"config": {"a": {}}}}}`))
	f.Add([]byte("client = { options = { a = 1 }, host_volume = { a = [{}] } }"))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "a.hcl")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		c := Default()
		if err := c.Load(path); err != nil {
			for line := range strings.Lines(strings.TrimPrefix(err.Error(), "configuration: ")) {
				if !strings.HasPrefix(line, path+":") {
					t.Fatalf("not a line with its place: %q", line)
				}
			}
			return
		}
		_ = c.Validate()
	})
}
