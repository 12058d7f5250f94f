package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/config"
)

// loaded is what a configuration file says, its warnings without their places.
func loaded(t *testing.T, name, content string) (config.Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	c := config.Default()
	err := c.Load(file)
	for i, warning := range c.Warnings {
		c.Warnings[i] = regexp.MustCompile(`^\S+:\d+,\d+: `).ReplaceAllString(warning, "")
	}
	return c, err
}

// What is written in JSON, as objects or as Nomad's own tools write it, in lists of one object, or in
// HCL with objects instead of blocks, is what the blocks of HCL say.
func TestJSONAndObjectsSayWhatBlocksDo(t *testing.T) {
	for name, c := range map[string]struct {
		hcl  string
		same []string
	}{
		"nothing":   {``, []string{`{}`, ` { } `, "{\"server\": []}"}},
		"arguments": {"name = \"n\"\nlog_json = true", []string{`{"name": "n", "log_json": true}`, `{"name": "n", "log_json": "true"}`}},
		"a block": {"ports {\n http = 1\n rpc = 2\n}", []string{
			`{"ports": {"http": 1, "rpc": 2}}`, `{"ports": [{"http": "1", "rpc": 2}]}`, "ports = { http = 1, rpc = 2 }", "ports = {\n http = 1\n rpc = 2\n}"}},
		"what is null": {`name = null`, []string{`{"name": null}`}},
		"maps": {"client {\n meta {\n a = \"1\"\n b = \"2\"\n }\n}", []string{
			`{"client": {"meta": {"a": "1", "b": 2}}}`, `{"client": [{"meta": [{"a": "1"}, {"b": "2"}]}]}`, "client = {\n meta = { a = \"1\", b = \"2\" }\n}"}},
		"options": {"client {\n options = {\n \"driver.allowlist\" = \"exec\"\n \"x\" = \"y\"\n }\n}", []string{
			`{"client": {"options": {"driver.allowlist": "exec", "x": "y"}}}`, `{"client": [{"options": [{"driver.allowlist": "exec", "x": "y"}]}]}`}},
		"labels": {"client {\n host_volume \"a\" {\n path = \"/a\"\n }\n host_volume \"b\" {\n path = \"/b\"\n read_only = true\n }\n}", []string{
			`{"client": {"host_volume": {"a": {"path": "/a"}, "b": {"path": "/b", "read_only": true}}}}`,
			`{"client": [{"host_volume": [{"a": [{"path": "/a"}]}, {"b": [{"path": "/b", "read_only": true}]}]}]}`,
			"client {\n host_volume = {\n a = { path = \"/a\" }\n b = { path = \"/b\", read_only = true }\n }\n}"}},
		"plugins": {"plugin \"p\" {\n args = [\"-v\"]\n config {\n enabled = true\n list = []\n }\n grant {\n process {\n commands = [\"/a\"]\n helper \"/h\" {\n env = { A = \"b\" }\n }\n }\n }\n}", []string{
			`{"plugin": {"p": {"args": ["-v"], "config": {"enabled": true, "list": []}, "grant": {"process": {"commands": ["/a"], "helper": {"/h": {"env": {"A": "b"}}}}}}}}`,
			`{"plugin": [{"p": [{"args": ["-v"], "config": [{"enabled": true, "list": []}], "grant": [{"process": [{"commands": ["/a"], "helper": [{"/h": {"env": {"A": "b"}}}]}]}]}]}]}`}},
		"a plugin's own": {"plugin \"p\" {\n config {\n auth = { config = \"/c\" }\n none = null\n }\n}", []string{
			`{"plugin": {"p": {"config": {"auth": {"config": "/c"}, "none": null}}}}`, "plugin \"p\" {\n config = {\n auth = { config = \"/c\" }\n none = null\n }\n}"}},
		"Nomad's": {"consul {\n address = \"x\"\n}\nclient {\n fingerprint \"env_aws\" {\n }\n template {\n vault_retry {\n }\n }\n}\nkeyring \"aead\" {\n}", []string{
			`{"consul": {"address": "x"}, "client": {"fingerprint": {"env_aws": {}}, "template": {"vault_retry": [{}]}}, "keyring": {"aead": {"active": true}}}`}},
		"text": {"name = \"$${x} %%{y} \\\" ä\"", []string{`{"name": "${x} %{y} \" \u00e4"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := loaded(t, "a.hcl", c.hcl)
			require.NoError(t, err)
			for _, other := range c.same {
				got, err := loaded(t, "a.json", other)
				require.NoError(t, err, other)
				require.Equal(t, want, got, other)
			}
		})
	}
}

func TestFaultsOfJSONHaveTheirPlaces(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"a comma too much":  {"{\n  \"name\": \"n\",\n}", "3,1: Invalid JSON; invalid character '}' looking for beginning of object key string."},
		"too short":         {"{\n \"name\"", "2,7: Invalid JSON; unexpected end of JSON input."},
		"two":               {"{} {}", "1,4: Invalid JSON; invalid character '{' after top-level value."},
		"unknown":           {"{\n \"client\": {\"enabeld\": 1}}", "2,13: Unsupported argument; An argument named \"enabeld\" is not expected here."},
		"unknown block":     {`{"telemtry": {}}`, `1,2: Unsupported block type; Blocks of type "telemtry" are not expected here. Did you mean "telemetry"?`},
		"no block":          {"{\n \"client\": 3}", "2,12: Unsuitable value; client is an object, or a list of objects."},
		"no label":          {`{"plugin": {"file": "x"}}`, "1,21: Unsuitable value; plugin.file is an object: plugin has a label."},
		"twice":             {`{"name": "a", "name": "b"}`, `1,15: Duplicate argument; "name" is set in this object already.`},
		"a block twice":     {`{"ports": [{}, {}]}`, `1,2: Duplicate ports block; Only one ports block is allowed. Another was defined at `},
		"a plugin twice":    {"{\"plugin\": {\n\"p\": {}, \"p\": {}}}", `1,2: Duplicate plugin "p"; it is configured at `},
		"a wrong type":      {`{"ports": {"http": "x"}}`, "1,20: Unsuitable value type; Unsuitable value: a number is required"},
		"refused":           {"{\"server\": {\n  \"bootstrap_expect\": 3}}", "2,3: server.bootstrap_expect cannot be done: "},
		"a number too long": {`{"ports": {"http": 1e9999999}}`, "1,20: The number is too large or too small; digits and powers of ten are limited to 999."},
		"too deep":          {`{"plugin": {"p": {"config": {"a": ` + strings.Repeat("[", 97) + strings.Repeat("]", 97) + "}}}}", "1,131: More than 100 brackets within each other."},
		"a comment":         {`{"//": "x"}`, `1,2: Unsupported argument; An argument named "//" is not expected here.`},
		"a list":            {`[{"name": "n"}]`, "1,1: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loaded(t, "a.json", c.content)
			require.ErrorContains(t, err, "a.json:"+c.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
	_, err := loaded(t, "a.hcl", "telemetry = {\n (x) = true\n}")
	require.ErrorContains(t, err, "2,3: Variables not allowed")
	_, err = loaded(t, "a.json", fmt.Sprintf(`{"name": %q}`, strings.Repeat("n", 1<<20)))
	require.ErrorContains(t, err, "The file has more than 1048576 bytes.")
}

// Of a directory, files of both kinds are read, in the order of their names.
func TestADirectoryMayHaveJSON(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"1.hcl": "name = \"first\"\nregion = \"r\"", "2.json": `{"name": "second", "client": {"meta": {"a": "b"}}}`, "3.hcl": "client {\n node_class = \"c\"\n}",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	c := config.Default()
	require.NoError(t, c.Load(dir))
	require.Equal(t, []string{"second", "r", "c"}, []string{c.Name, c.Region, c.Client.NodeClass})
	require.Equal(t, map[string]string{"a": "b"}, c.Client.Meta)
}
