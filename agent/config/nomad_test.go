package config_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/config"
)

var update = flag.Bool("update", false, "write the golden files and the page's table anew")

// golden compares a text with a file's, or writes it.
func golden(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text, "after a change that is meant: go test ./agent/config -update")
}

// Configurations as Nomad's users have them are taken, warned of or refused, line by line.
func TestConfigurationsOfNomadsAreDoneWarnedOfOrRefused(t *testing.T) {
	files, err := filepath.Glob("testdata/nomad/*") // files and directories
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var text strings.Builder
	for _, file := range files {
		c := config.Default()
		err := c.Load(file)
		fmt.Fprintf(&text, "%s: %s\n", filepath.Base(file), map[bool]string{true: "taken", false: "refused"}[err == nil])
		for _, warning := range c.Warnings {
			fmt.Fprintf(&text, "  warning: %s\n", warning)
		}
		if err != nil {
			fmt.Fprintf(&text, "  %s\n", strings.ReplaceAll(err.Error(), "\n", "\n  "))
		}
	}
	golden(t, "testdata/nomad.golden", text.String())
}

// Templates of go-sockaddr are resolved with what the machine has, in files and in flags.
func TestAddressesMayBeTemplates(t *testing.T) {
	loop := "`^lo$`"
	address := "{{ GetAllInterfaces | include `name` " + loop + " | include `type` `IPv4` | attr `address` }}"
	for name, c := range map[string]struct {
		file  string
		want  func(config.Config) []string
		value []string
		fault string
	}{
		"where the API listens": {"bind_addr = \"" + address + "\"", config.Config.Addresses, []string{"127.0.0.1"}, ""},
		"several":               {"addresses { http = \"127.0.0.2 " + address + "\" }", config.Config.Addresses, []string{"127.0.0.2", "127.0.0.1"}, ""},
		"several without one":   {`addresses { http = "127.0.0.2 127.0.0.3" }`, config.Config.Addresses, []string{"127.0.0.2", "127.0.0.3"}, ""},
		"of servers":            {"client { servers = [\"a\", \"" + address + ":4647\"] }", servers, []string{"a", "127.0.0.1:4647"}, ""},
		"and those to join":     {"client {\n server_join { retry_join = [\"" + address + "\"] }\n}", servers, []string{"127.0.0.1"}, ""},
		"one that is several":   {"bind_addr = \"" + address + " b\"", nil, nil, "a.hcl:1,13: bind_addr: " + address + " b is several, 127.0.0.1 b, and one is needed"},
		"one that is two":       {`bind_addr = "127.0.0.1 b"`, nil, nil, `a.hcl:1,13: bind_addr: "127.0.0.1 b" is several, and one is needed`},
		"none":                  {"addresses {\n  http = \"{{ GetInterfaceIP `none` }}\"\n}", nil, nil, "a.hcl:2,10: addresses.http: {{ GetInterfaceIP `none` }}: the machine has no such address or interface"},
		"no function":           {"client {\n servers = [\"a\",\n \"{{ GetNone }}\"]\n}", nil, nil, `a.hcl:3,2: client.servers: {{ GetNone }}: function "GetNone" not defined`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			require.NoError(t, os.WriteFile("a.hcl", []byte(c.file), 0o600))
			got := config.Default()
			err := got.Load("a.hcl")
			if c.fault != "" {
				require.EqualError(t, err, "configuration: "+c.fault)
				return
			}
			require.NoError(t, err)
			require.NoError(t, got.Validate())
			require.Equal(t, c.value, c.want(got))
		})
	}
	flagged := config.Default()
	require.NoError(t, flagged.Set(config.Setting{Flag: config.Flag{Name: "bind", Key: "bind_addr"}, Value: address}))
	require.NoError(t, flagged.Set(config.Setting{Flag: config.Flag{Name: "servers", Key: "client.servers"}, Value: "a b," + address}))
	require.Equal(t, "127.0.0.1", flagged.BindAddr)
	require.Equal(t, []string{"a", "b", "127.0.0.1"}, flagged.Client.Servers)
	require.EqualError(t, flagged.Set(config.Setting{Flag: config.Flag{Name: "servers", Key: "client.servers"}, Value: "{{ None }}"}),
		`-servers: {{ None }}: function "None" not defined`)
}

func servers(c config.Config) []string { return c.Client.Servers }

func TestWhatIsTakenOfNomadsIsInForce(t *testing.T) {
	c := config.Default()
	require.NoError(t, c.Load("testdata/nomad/single.hcl"))
	require.NoError(t, c.Validate())
	require.Equal(t, "127.0.0.1", c.BindAddr, "addresses.http is before bind_addr")
	require.Equal(t, map[string]string{"rack": "r1", "zone": "a"}, c.Client.Meta)
	require.Equal(t, map[string]string{"/bin": "/bin"}, c.Client.ChrootEnv)
	require.Equal(t, map[string]any{"enabled": true}, c.Plugins["raw_exec"].Config)
	require.Equal(t, config.Scheduler{Algorithm: "spread", Oversubscription: true, Preemption: config.Preemption{System: true, Batch: true}}, c.Server.Scheduler)
}

// What a map is in a plugin's configuration is the plugin's to say.
func TestAPluginsBlocksStayBlocks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.hcl")
	require.NoError(t, os.WriteFile(file, []byte("plugin \"p\" { config { meta { a = 1 } client { meta { b = 2 } } audit { c = 3 } args = [1] } }"), 0o600))
	c := config.Default()
	require.NoError(t, c.Load(file))
	require.Empty(t, c.Warnings)
	require.Equal(t, map[string]any{
		"meta":   []any{map[string]any{"a": int64(1)}},
		"client": []any{map[string]any{"meta": []any{map[string]any{"b": int64(2)}}}},
		"audit":  []any{map[string]any{"c": int64(3)}},
		"args":   []any{int64(1)},
	}, c.Plugins["p"].Config)
}

func TestNothingIsSaidOfWhatTheAgentIsAnyway(t *testing.T) {
	for _, k := range config.NomadKeys() {
		for _, value := range k.As {
			if key, label, labelled := strings.Cut(k.Key, ` "`); labelled {
				file := filepath.Join(t.TempDir(), "a.hcl")
				require.NoError(t, os.WriteFile(file, []byte(key+` "`+label+" {\n}\n"), 0o600))
				c := config.Default()
				require.NoError(t, c.Load(file))
				require.Empty(t, c.Warnings, k.Key)
				continue
			}
			c := config.Default()
			require.NoError(t, c.Set(config.Setting{Flag: config.Flag{Name: "f", Key: k.Key}, Value: value}), k.Key)
			require.Empty(t, c.Warnings, k.Key)
		}
		if k.As == nil || k.Key == `keyring "aead"` || strings.HasPrefix(k.Key, "disable_") {
			continue
		}
		c := config.Default()
		err := c.Set(config.Setting{Flag: config.Flag{Name: "f", Key: k.Key}, Value: "another"})
		if k.Refused {
			require.EqualError(t, err, fmt.Sprintf("-f: %s cannot be done: %s", k.Key, k.Why))
		} else {
			require.NoError(t, err)
			require.Equal(t, []string{fmt.Sprintf("-f: %s has no effect: %s", k.Key, k.Why)}, c.Warnings)
		}
	}
}

func TestKeysOfNomadsAreThereOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range config.NomadKeys() {
		require.False(t, seen[k.Key], k.Key)
		seen[k.Key] = true
		require.NotEmpty(t, k.Why)
	}
}

func TestEveryFlagIsDoneWarnedOfOrRefused(t *testing.T) {
	values := map[string]string{"meta": "a=b", "bind": "127.0.0.2", "retry-interval": "10s"}
	for _, name := range []string{
		"bootstrap-expect", "network-speed", "raft-protocol", "retry-max", "consul-client-failures-before-critical", "consul-client-failures-before-warning",
		"consul-server-failures-before-critical", "consul-server-failures-before-warning",
	} {
		values[name] = "1"
	}
	quiet := []string{"client", "bootstrap-expect"}
	flags := config.Flags()
	require.True(t, slices.IsSortedFunc(flags, func(a, b config.Flag) int { return strings.Compare(a.Name, b.Name) }))
	for _, f := range flags {
		value := "x"
		if f.Switch {
			value = "true"
		}
		if v, ok := values[f.Name]; ok {
			value = v
		}
		c := config.Default()
		err := c.Set(config.Setting{Flag: f, Value: value})
		changed := len(config.Changes(config.Default(), c)) > 0
		switch {
		case err != nil:
			require.Regexp(t, `^-`+f.Name+`: [a-z_.]+ cannot be done: \S`, err.Error())
			require.False(t, changed)
			require.Empty(t, c.Warnings)
		case slices.Contains(quiet, f.Name):
			require.False(t, changed)
			require.Empty(t, c.Warnings)
		case changed:
			require.Empty(t, c.Warnings)
		default:
			require.Len(t, c.Warnings, 1, f.Name)
			require.Regexp(t, `^-`+f.Name+`: [a-z_.]+ has no effect: \S`, c.Warnings[0])
		}
	}
}

func TestFlagsSayWhatIsWrongWithThem(t *testing.T) {
	for name, c := range map[string]struct {
		flag, value, want string
	}{
		"a wrong type":        {"log-json", "perhaps", `-log-json: Unsuitable value type; Unsuitable value: a bool is required`},
		"meta without =":      {"meta", "rack", `-meta "rack": it has the form KEY=VALUE`},
		"no cluster's server": {"retry-join", "192.0.2.1", "-retry-join: server.retry_join cannot be done: an agent is no server of a cluster: leave this out for a single server, or have client.servers join others"},
		"no client":           {"client", "false", "-client: client.enabled cannot be done: an agent is a server and a client in one: leave this out, and to have it run nothing, type: wasmnode node eligibility -disable"},
		"what is no number":   {"bootstrap-expect", "x", "-bootstrap-expect: server.bootstrap_expect cannot be done: an agent is no server of a cluster: leave this out for a single server, or have client.servers join others"},
	} {
		t.Run(name, func(t *testing.T) {
			flags := config.Flags()
			f := flags[slices.IndexFunc(flags, func(f config.Flag) bool { return f.Name == c.flag })]
			given := config.Default()
			require.EqualError(t, given.Set(config.Setting{Flag: f, Value: c.value}), c.want)
			require.Equal(t, config.Default(), given)
		})
	}
}

func TestSettingsAddUp(t *testing.T) {
	c := config.Default()
	for _, meta := range []string{"a=1", "b=x=y", "a=2"} {
		require.NoError(t, c.Set(config.Setting{Flag: config.Flag{Name: "meta", Key: "client.meta"}, Value: meta}))
	}
	require.NoError(t, c.Set(config.Setting{Flag: config.Flag{Name: "node", Key: "name"}, Value: `${a} "b"`}))
	require.Equal(t, map[string]string{"a": "2", "b": "x=y"}, c.Client.Meta)
	require.Equal(t, `${a} "b"`, c.Name)
}

// An agent is told to join servers by a file or a flag, and not to be a server as well.
func TestServersToJoin(t *testing.T) {
	for name, c := range map[string]struct {
		file  string
		want  []string
		fault string
	}{
		"servers":              {`client { servers = ["a:4647", "b"] }`, []string{"a:4647", "b"}, ""},
		"and a join":           {"client {\n servers = [\"a\"]\n server_join { retry_join = [\"b\"] }\n}\nserver { enabled = false }", []string{"a", "b"}, ""},
		"a server, too":        {"client { servers = [\"a\"] }\nserver { enabled = true }", []string{"a"}, "client.servers: with server { enabled = true } the agent is its own server: leave out one of the two"},
		"no server at all":     {"server { enabled = false }", nil, "server.enabled: false, and client.servers has none: nobody would say what runs here"},
		"itself":               {"client { servers = [\"127.0.0.1\", \"localhost:4647\", \"[::1]:4647\"] }\nserver { enabled = true }", nil, ""},
		"itself and another":   {"client { servers = [\"127.0.0.1\", \"b\"] }\nserver { enabled = true }", []string{"127.0.0.1", "b"}, "client.servers: with server { enabled = true } the agent is its own server: leave out one of the two"},
		"itself and no server": {"client { servers = [\"127.0.0.1\"] }\nserver { enabled = false }", []string{"127.0.0.1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.hcl")
			require.NoError(t, os.WriteFile(file, []byte(c.file), 0o600))
			got := config.Default()
			require.NoError(t, got.Load(file))
			require.Equal(t, c.want, got.Client.Servers)
			if c.fault == "" {
				require.NoError(t, got.Validate())
			} else {
				require.EqualError(t, got.Validate(), c.fault)
			}
		})
	}
	flagged := config.Default()
	require.NoError(t, flagged.Set(config.Setting{Flag: config.Flag{Name: "servers", Key: "client.servers"}, Value: "a:1,b"}))
	require.Equal(t, []string{"a:1", "b"}, flagged.Client.Servers)
}

// What the agent could not listen on or connect to is found where it stands in the file.
func TestAddressesThatCannotBeAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`client { servers = ["provider=aws tag_key=x"] }`:    `:1,21: client.servers: "provider=aws tag_key=x" is not HOST:PORT: others than addresses and names are not looked up`,
		"client {\n  servers = [\"a\", \"10.0.0.1:abc\"]\n}": `:2,19: client.servers: "10.0.0.1:abc" is not a server: write HOST or HOST:PORT; the servers' RPC port is 4647`,
		`client { servers = ["http://10.0.0.1:4646"] }`:      `"http://10.0.0.1:4646" is not a server: write HOST or HOST:PORT; the servers' RPC port is 4647`,
		`client { server_join { retry_join = [":4647"] } }`:  `client.server_join.retry_join: ":4647" is not a server`,
		`addresses { http = "127.0.0.1, 10.0.0.1" }`:         `:1,20: addresses.http: "127.0.0.1," is not an address; 127.0.0.1 is this machine only, 0.0.0.0 every network, and several have spaces between`,
		`bind_addr = "127.0.0.1:4646"`:                       `:1,13: bind_addr: "127.0.0.1:4646" is not an address`,
	} {
		file := filepath.Join(t.TempDir(), "a.hcl")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		c := config.Default()
		require.ErrorContains(t, c.Load(file), want, text)
	}
	for _, server := range []string{"10.0.0.1:abc", "http://a", "a b", ":1", "a:0"} {
		c := config.Default()
		c.Client.Servers = []string{server}
		require.ErrorContains(t, c.Validate(), "client.servers: ", server)
	}
	for _, sound := range []string{"a", "a:1", "[::1]:4647", "::1", "10.0.0.1"} {
		c := config.Default()
		c.Client.Servers = []string{sound}
		require.NoError(t, c.Validate(), sound)
	}
	for _, sound := range []string{"::", "fe80::1%eth0", "localhost", "127.0.0.1 ::1"} {
		c := config.Default()
		c.BindAddr = sound
		require.NoError(t, c.Validate(), sound)
	}
}

// A flag that has no effect is read all the same: what a typing mistake is in is not what is meant.
func TestFlagsAreOfTheirType(t *testing.T) {
	flag := map[string]config.Flag{}
	for _, f := range config.Flags() {
		flag[f.Name] = f
	}
	for _, c := range [][3]string{
		{"consul-ssl", "maybe", "true or false"}, {"retry-interval", "ten", "a duration, such as 30s"},
		{"retry-max", "1.5", "a whole number"}, {"network-speed", "abc", "a whole number"},
	} {
		got := config.Default()
		require.EqualError(t, got.Set(config.Setting{Flag: flag[c[0]], Value: c[1]}), fmt.Sprintf("-%s %q: it is %s", c[0], c[1], c[2]))
	}
	for name, value := range map[string]string{"consul-ssl": "true", "retry-interval": "10s", "network-speed": "100"} {
		got := config.Default()
		require.NoError(t, got.Set(config.Setting{Flag: flag[name], Value: value}))
	}
}

// Who joins servers is not told that there are none.
func TestAnAgentThatJoinsIsNotTheOnlyServer(t *testing.T) {
	for text, want := range map[string]string{
		`server { heartbeat_grace = "1m" }`:                                 "this agent is the only server",
		"server { heartbeat_grace = \"1m\" }\nclient { servers = [\"a\"] }": "the servers that client.servers joins have that in their own configuration",
	} {
		file := filepath.Join(t.TempDir(), "a.hcl")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		c := config.Default()
		require.NoError(t, c.Load(file))
		require.Len(t, c.Warnings, 1)
		require.Contains(t, c.Warnings[0], want)
	}
}

// The page has every key.
func TestThePageHasEveryKeyOfNomads(t *testing.T) {
	const begin, end = "<!-- keys: written by the tests -->\n", "<!-- /keys -->"
	path := "../../docs/nomad-configuration.md"
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(page), begin)
	require.True(t, found)
	_, tail, found := strings.Cut(rest, end)
	require.True(t, found)
	var table strings.Builder
	table.WriteString("\n| Key | | What is the case |\n|---|---|---|\n")
	for _, k := range config.NomadKeys() {
		what := "warned of"
		if k.Refused {
			what = "refused"
		}
		if k.As != nil {
			quoted := make([]string, len(k.As))
			for i, v := range k.As {
				quoted[i] = "`" + v + "`"
				if v == "" {
					quoted[i] = "nothing"
				}
			}
			what += ", but for " + strings.Join(quoted, " or ")
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", k.Key, what, k.Why)
	}
	golden(t, path, head+begin+table.String()+"\n"+end+tail)
}
