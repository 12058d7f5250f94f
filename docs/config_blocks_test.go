package docs

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/configschema"
	"github.com/wasmnode/wasmnode/jobspec"
	"github.com/wasmnode/wasmnode/sdk/go/config"
)

const configPage = "config-blocks.md"

// fit makes of what is in a config block what a driver gets, by the page's schema.
func fit(t *testing.T, text, schema string) (string, error) {
	t.Helper()
	job, err := jobspec.Parse(jobspec.Options{Path: configPage, Content: []byte("job \"j\" {\n group \"g\" {\n task \"t\" {\n driver = \"d\"\n config {\n" + text + "\n}\n}\n}\n}")})
	require.NoError(t, err, text)
	compiled, err := configschema.Compile(schema)
	require.NoError(t, err)
	fitted, err := compiled.CheckJSON("config", job.TaskGroups[0].Tasks[0].Config)
	return string(fitted), err
}

func TestConfigBlocksBecomeTheJSONOfThePage(t *testing.T) {
	text, err := os.ReadFile(configPage)
	require.NoError(t, err)
	schema := block(t, configPage, "json")
	pairs := regexp.MustCompile("(?s)```hcl\n(.*?)```\n\n```json\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, pairs, 4)
	for _, p := range pairs {
		got, err := fit(t, p[1], schema)
		require.NoError(t, err, p[1])
		require.JSONEq(t, p[2], got, p[1])
	}
}

func TestWrongShapesAreCalledAsOnThePage(t *testing.T) {
	text, err := os.ReadFile(configPage)
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| `(.*)` \\| `(config\\..*)` \\|$").FindAllStringSubmatch(string(text), -1)
	require.Len(t, rows, 8)
	for _, row := range rows {
		written := strings.NewReplacer("; ", "\n").Replace(row[1])
		if !strings.HasPrefix(written, "image") {
			written = "image = \"a\"\n" + written
		}
		_, err := fit(t, written, block(t, configPage, "json"))
		require.EqualError(t, err, row[2], row[1])
	}
}

// What follows is on the page as it is here.

type taskConfig struct {
	image    string
	args     []string
	cpus     int64
	labels   map[string]string
	auth     *auth // nil: there is none
	mounts   []mount
	networks map[string]network
	extra    config.Value
}

type auth struct{ user string }

type mount struct{ from, to string }

type network struct{ mtu int64 }

func (c *taskConfig) fields(f *config.Fields) {
	f.String(&c.image, "image", "What is run.").Required()
	f.Strings(&c.args, "args", "").Default([]string{})
	f.Int(&c.cpus, "cpus", "")
	f.Map(&c.labels, "labels", "")
	config.OptionalBlock(f, &c.auth, "auth", "", (*auth).fields)
	config.Blocks(f, &c.mounts, "mount", "", (*mount).fields)
	config.LabelledBlocks(f, &c.networks, "network", "", (*network).fields)
	f.Any(&c.extra, "extra", "")
}

func (a *auth) fields(f *config.Fields) { f.String(&a.user, "user", "").Required() }

func (m *mount) fields(f *config.Fields) {
	f.String(&m.from, "from", "")
	f.String(&m.to, "to", "")
}

func (n *network) fields(f *config.Fields) { f.Int(&n.mtu, "mtu", "").Default(1500) }

var tasks = config.For((*taskConfig).fields)

// That was it.

func TestTheStructOfThePageHasItsSchemaAndReadsItsJSON(t *testing.T) {
	source, err := os.ReadFile("config_blocks_test.go")
	require.NoError(t, err)
	_, code, _ := strings.Cut(string(source), "// What follows is on the page as it is here.\n\n")
	code, _, _ = strings.Cut(code, "\n// That was it.\n")
	require.Equal(t, block(t, configPage, "go"), code)

	var byHand, made map[string]any
	require.NoError(t, json.Unmarshal([]byte(block(t, configPage, "json")), &byHand))
	require.NoError(t, json.Unmarshal([]byte(tasks.Schema()), &made))
	require.Equal(t, byHand, withoutMore(made))

	text, err := os.ReadFile(configPage)
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```hcl\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	var got []taskConfig
	for _, b := range blocks {
		fitted, err := fit(t, b[1], tasks.Schema())
		require.NoError(t, err)
		c, err := tasks.Decode([]byte(fitted))
		require.NoError(t, err)
		if c.extra.IsSet() {
			require.EqualValues(t, 1, c.extra.Items()[0].Get("a").Items()[0].Get("b").Int())
			c.extra = config.Value{}
		}
		got = append(got, c)
	}
	mounts := []mount{{"/srv", "/data"}, {"/tmp", ""}}
	require.Equal(t, []taskConfig{
		{image: "alpine", args: []string{}, auth: &auth{"me"}, mounts: mounts, labels: map[string]string{"com.example/team": "web"}},
		{image: "alpine", args: []string{}, auth: &auth{"me"}, mounts: mounts, labels: map[string]string{"team": "web"}},
		{image: "alpine", args: []string{}, networks: map[string]network{"front": {9000}, "back": {1500}}},
		{image: "alpine", args: []string{}, cpus: 4},
	}, got)
}

// withoutMore is a schema without the refusal of what it does not name, which a node takes as said.
func withoutMore(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if v["additionalProperties"] == false {
			delete(v, "additionalProperties")
		}
		for name, member := range v {
			v[name] = withoutMore(member)
		}
	case []any:
		for i := range v {
			v[i] = withoutMore(v[i])
		}
	}
	return v
}
