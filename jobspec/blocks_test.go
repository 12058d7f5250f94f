package jobspec

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty/gocty"
)

func TestDynamicBlocks(t *testing.T) {
	cases := map[string]struct {
		content string
		want    string // the task's config as JSON
		err     string
	}{
		"a list":      {content: "dynamic \"m\" {\n for_each = [\"x\", \"y\"]\n content {\n k = m.key\n v = m.value\n}\n}", want: `{"m": [{"k": 0, "v": "x"}, {"k": 1, "v": "y"}]}`},
		"a map":       {content: "dynamic \"m\" {\n for_each = { a = 1 }\n content {\n k = m.key\n v = m.value\n}\n}", want: `{"m": [{"k": "a", "v": 1}]}`},
		"a set":       {content: "dynamic \"m\" {\n for_each = setunion([\"x\"], [\"x\"])\n content {\n k = m.key\n}\n}", want: `{"m": [{"k": "x"}]}`},
		"nothing":     {content: "dynamic \"m\" {\n for_each = []\n content {}\n}", want: `{}`},
		"an iterator": {content: "dynamic \"m\" {\n for_each = [1]\n iterator = it\n content {\n v = it.value\n}\n}", want: `{"m": [{"v": 1}]}`},
		"labels":      {content: "dynamic \"m\" {\n for_each = [1]\n labels = [\"l${m.value}\"]\n content {}\n}", want: `{"m": [{"l1": [{}]}]}`},
		"nested":      {content: "dynamic \"m\" {\n for_each = [1]\n content {\n dynamic \"n\" {\n for_each = [2]\n content {\n v = \"${m.value}${n.value}\"\n}\n}\n}\n}", want: `{"m": [{"n": [{"v": "12"}]}]}`},
		"among others": {content: "m {\n v = 0\n}\ndynamic \"m\" {\n for_each = [1]\n content {\n v = 1\n}\n}\nm {\n v = 2\n}",
			want: `{"m": [{"v": 0}, {"v": 1}, {"v": 2}]}`},
		"the node's values":      {content: "dynamic \"m\" {\n for_each = [1]\n content {\n v = \"${NOMAD_X}/${m.value}\"\n}\n}", want: `{"m": [{"v": "${NOMAD_X}/1"}]}`},
		"no for_each":            {content: "dynamic \"m\" {\n content {}\n}", err: `job.hcl:5,1: A dynamic block has the blocks' type as label, a for_each and a content block.`},
		"no content":             {content: "dynamic \"m\" {\n for_each = []\n}", err: `job.hcl:5,1: A dynamic block has the blocks' type as label, a for_each and a content block.`},
		"no type":                {content: "dynamic {\n for_each = []\n content {}\n}", err: `job.hcl:5,1: A dynamic block has the blocks' type as label, a for_each and a content block.`},
		"two contents":           {content: "dynamic \"m\" {\n for_each = []\n content {}\n content {}\n}", err: `job.hcl:8,2: Duplicate content block; a dynamic block has one, the first is at job.hcl:7,2-9.`},
		"unknown argument":       {content: "dynamic \"m\" {\n foreach = []\n for_each = []\n content {}\n}", err: `job.hcl:6,2: Unsupported argument; a dynamic block has no "foreach"; did you mean "for_each"?`},
		"unknown block":          {content: "dynamic \"m\" {\n for_each = []\n contents {}\n content {}\n}", err: `job.hcl:7,2: Unsupported block type; a dynamic block has no "contents"; did you mean "content"?`},
		"content, named":         {content: "dynamic \"m\" {\n for_each = []\n content \"c\" {}\n}", err: `job.hcl:7,2: Extraneous label; a content block has no name.`},
		"a strange iterator":     {content: "dynamic \"m\" {\n for_each = []\n iterator = \"x\"\n content {}\n}", err: `job.hcl:7,2: An iterator is a plain name.`},
		"over a text":            {content: "dynamic \"m\" {\n for_each = \"x\"\n content {}\n}", err: `job.hcl:6,2: The for_each of a dynamic block has to be a list, a set or a map that is known when the file is read.`},
		"over null":              {content: "dynamic \"m\" {\n for_each = null\n content {}\n}", err: `job.hcl:6,2: The for_each of a dynamic block has to be a list, a set or a map that is known when the file is read.`},
		"over a node's value":    {content: "dynamic \"m\" {\n for_each = attr.x\n content {}\n}", err: `job.hcl:6,2: The for_each of a dynamic block has to be a list, a set or a map that is known when the file is read.`},
		"over what is not there": {content: "dynamic \"m\" {\n for_each = var.x\n content {}\n}", err: `job.hcl:6,13: Undeclared variable "x".`},
		"labels, mistyped":       {content: "dynamic \"m\" {\n for_each = [1]\n labels = 1\n content {}\n}", err: `job.hcl:7,11: Unsuitable value; list of string required, but have number.`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			content := inTask("config {\n" + c.content + "\n}")
			if c.err != "" {
				_, err := parse(content)
				require.EqualError(t, err, c.err)
				return
			}
			require.JSONEq(t, c.want, configOf(t, content))
		})
	}
}

func TestDynamicBlocksOfTheJobItself(t *testing.T) {
	job, err := parse(inJob(`
  dynamic "group" {
    for_each = ["a", "b"]
    labels   = [group.value]
    content {
      task "t" {
        driver = "wasi"
      }
    }
  }`))
	require.NoError(t, err)
	require.Len(t, job.TaskGroups, 2)
	require.Equal(t, "b", *job.TaskGroups[1].Name)
	require.Equal(t, "wasi", job.TaskGroups[1].Tasks[0].Driver)

	_, err = parse(inJob("dynamic \"group\" {\n for_each = [1, 2]\n labels = [\"a\"]\n content {}\n}"))
	require.EqualError(t, err, `job.hcl:2,1: Duplicate group "a"; the first is at job.hcl:2,1-8.`)
}

func TestDynamicBlocksAreBounded(t *testing.T) {
	content := func(n int) string {
		return inTask(fmt.Sprintf("config {\ndynamic \"m\" {\n for_each = range(100)\n content {\ndynamic \"n\" {\n for_each = range(%d)\n content {}\n}\n}\n}\n}", n))
	}
	require.Equal(t, 10_000, maxExpanded)
	_, err := parse(content(maxExpanded/100 - 1)) // and the hundred outer ones
	require.NoError(t, err)
	_, err = parse(content(maxExpanded / 100))
	require.EqualError(t, err, "job.hcl:9,2: Dynamic blocks make more than 10000 blocks.")
}

func TestRuntimeVariablesAreLeftToTheNode(t *testing.T) {
	cases := map[string]struct{ written, want string }{
		"attribute":             {`"${attr.kernel.name}"`, `"${attr.kernel.name}"`},
		"bare":                  {`attr.kernel.name`, `"${attr.kernel.name}"`},
		"within a text":         {`"a-${NOMAD_ALLOC_ID}-b"`, `"a-${NOMAD_ALLOC_ID}-b"`},
		"index":                 {`"${meta["a.b"]}"`, `"${meta[\"a.b\"]}"`},
		"number":                {`"${device.ids[0]}"`, `"${device.ids[0]}"`},
		"beside its own part":   {`"${attr.driver.x} ${attr.driver.x.version}"`, `"${attr.driver.x} ${attr.driver.x.version}"`},
		"beside its own root":   {`"${env} ${env["X"]}"`, `"${env} ${env[\"X\"]}"`},
		"in a function":         {`upper("${node.class}")`, `"${NODE.CLASS}"`},
		"in a list":             {`["${node.class}"]`, `["${node.class}"]`},
		"as a key":              {`jsonencode({ node = node.class })`, `"{\"node\":\"${node.class}\"}"`},
		"in a for":              {`[for n in ["x"] : "${n}${node.class}"]`, `["x${node.class}"]`},
		"escaped":               {`"$${node.class}"`, `"${node.class}"`},
		"with a variable":       {`"${var.v}${node.class}"`, `"v${node.class}"`},
		"in a heredoc":          {"<<E\n${node.class}\nE\n", `"${node.class}\n"`},
		"by a name with a dash": {`"${attr.a-b}"`, `"${attr.a-b}"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			content := "variables {\n v = \"v\"\n}\n" + inTask("config {\n got = "+c.written+"\n}")
			require.JSONEq(t, `{"got": `+c.want+`}`, configOf(t, content))
		})
	}
}

func TestFunctions(t *testing.T) {
	cases := map[string]string{
		`format("%s-%02d", "a", 7)`:             `"a-07"`,
		`join(",", ["a", "b"])`:                 `"a,b"`,
		`length([1, 2])`:                        `2`,
		`merge({ a = 1 }, { b = 2 })`:           `[{"a": 1, "b": 2}]`,
		`try(parseint("x", 10), "none")`:        `"none"`,
		`can(parseint("x", 10))`:                `false`,
		`base64encode("a")`:                     `"YQ=="`,
		`sha256("")`:                            `"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`,
		`yamldecode("a: 1").a`:                  `1`,
		`cidrhost("10.0.0.0/8", 2)`:             `"10.0.0.2"`,
		`convert(["1"], list(number))[0]`:       `1`,
		`uuidv5("dns", "example.com")`:          `"cfbff0d1-9375-5685-968c-48ce8b15ae17"`,
		`urlencode("a b")`:                      `"a+b"`,
		`regex_replace("a1", "[0-9]", "")`:      `"a"`,
		`timeadd("2026-01-01T00:00:00Z", "1h")`: `"2026-01-01T01:00:00Z"`,
	}
	for call, want := range cases {
		t.Run(call, func(t *testing.T) {
			got := configOf(t, inTask("config {\n got = "+call+"\n}"))
			if strings.HasPrefix(want, "[") {
				want = strings.Trim(want, "[]") // only what is written as an object becomes a list
			}
			require.JSONEq(t, `{"got": `+want+`}`, got)
		})
	}
}

func TestFilesAreReadOnlyWhenAllowed(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "motd"), []byte("hello"), 0o600))
	content := []byte(inTask("config {\n got = file(\"motd\")\n}"))
	job, err := Parse(Options{Path: filepath.Join(dir, "job.hcl"), Content: content, AllowFiles: true})
	require.NoError(t, err)
	require.Equal(t, "hello", job.TaskGroups[0].Tasks[0].Config["got"])

	for _, name := range []string{"abspath", "basename", "dirname", "file", "filebase64", "fileexists", "fileset", "pathexpand"} {
		require.Contains(t, functions(Options{AllowFiles: true}), name)
		_, err := parse(inTask("config {\n got = " + name + "(\"motd\")\n}"))
		require.ErrorContains(t, err, "job.hcl:5,8: Call to unknown function")
	}
}

func TestFreeFormBlocks(t *testing.T) {
	cases := map[string]struct{ content, want string }{
		"a literal object is a list": {"a = { b = 1 }", `{"a": [{"b": 1}]}`},
		"another is not":             {"a = merge({ b = 1 }, {})", `{"a": {"b": 1}}`},
		"blocks":                     {"a {\n b = 1\n}\na {\n b = 2\n}", `{"a": [{"b": 1}, {"b": 2}]}`},
		"labels nest":                {"a \"x\" \"y\" {}", `{"a": [{"x": [{"y": [{}]}]}]}`},
		"numbers":                    {"a = 1.5\nb = 2.0\nc = null", `{"a": 1.5, "b": 2, "c": null}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.JSONEq(t, c.want, configOf(t, inTask("config {\n"+c.content+"\n}")))
		})
	}
}

func TestMapsCanBeBlocksOrArguments(t *testing.T) {
	for _, content := range []string{"env {\n A = 1\n B = \"b\"\n}", "env = {\n A = 1\n B = \"b\"\n}"} {
		require.Equal(t, map[string]string{"A": "1", "B": "b"}, onlyTask(t, inTask(content)).Env)
	}
	require.Equal(t, map[string]string{"a.b": "c"}, onlyTask(t, inTask("meta = {\n \"a.b\" = \"c\"\n}")).Meta)
}

func TestConstraintShorthands(t *testing.T) {
	cases := map[string]struct {
		content string
		want    nomad.Constraint
	}{
		"no operator":       {"attribute = \"a\"\nvalue = \"b\"", nomad.Constraint{LTarget: "a", RTarget: "b", Operand: "="}},
		"version":           {"attribute = \"a\"\nversion = \">= 1\"", nomad.Constraint{LTarget: "a", RTarget: ">= 1", Operand: "version"}},
		"semver":            {"attribute = \"a\"\nsemver = \">= 1\"", nomad.Constraint{LTarget: "a", RTarget: ">= 1", Operand: "semver"}},
		"regexp":            {"attribute = \"a\"\nregexp = \"b\"", nomad.Constraint{LTarget: "a", RTarget: "b", Operand: "regexp"}},
		"set_contains":      {"attribute = \"a\"\nset_contains = \"b,c\"", nomad.Constraint{LTarget: "a", RTarget: "b,c", Operand: "set_contains"}},
		"distinct_hosts":    {"distinct_hosts = true", nomad.Constraint{RTarget: "true", Operand: "distinct_hosts"}},
		"distinct_property": {"distinct_property = \"a\"\nvalue = 2", nomad.Constraint{LTarget: "a", RTarget: "2", Operand: "distinct_property"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			job, err := parse(inJob("constraint {\n" + c.content + "\n}"))
			require.NoError(t, err)
			require.Equal(t, []*nomad.Constraint{&c.want}, job.Constraints)
		})
	}
	_, err := parse(inJob("constraint {\n version = []\n}"))
	require.EqualError(t, err, "job.hcl:3,2: Unsuitable value; version takes a text.")

	job, err := parse(inJob("affinity {\n attribute = \"a\"\n set_contains_any = \"b\"\n weight = 5\n}"))
	require.NoError(t, err)
	require.Equal(t, "set_contains_any", job.Affinities[0].Operand)
	require.EqualValues(t, 5, *job.Affinities[0].Weight)
}

func TestAVaultBlockOfAJobOrGroupIsThatOfItsTasks(t *testing.T) {
	job, err := parse(inJob(`
  vault {
    role = "job"
  }
  task "loose" {}
  group "g" {
    vault {
      role = "group"
    }
    task "a" {}
    task "b" {
      vault {
        role = "task"
      }
    }
  }`))
	require.NoError(t, err)
	roles := map[string]string{}
	for _, g := range job.TaskGroups {
		for _, task := range g.Tasks {
			roles[*g.Name+"/"+task.Name] = task.Vault.Role
		}
	}
	require.Equal(t, map[string]string{"loose/loose": "job", "g/a": "group", "g/b": "task"}, roles)
}

func TestNormalising(t *testing.T) {
	job, err := parse(`
job "j" {
  periodic {
    cron = "@daily"
  }
  group "g" {
    network {
      port "fixed" {
        static = 80
      }
      port "any" {}
    }
    scaling {
      max = 3
    }
    task "t" {
      template {
        data        = "x"
        destination = "local/x"
      }
      identity {
        env = true
      }
      identity {
        name = "other"
      }
      scaling "mem" {
        max = 256
      }
    }
  }
}
`)
	require.NoError(t, err)
	require.Equal(t, "j", *job.ID)
	require.Equal(t, "j", *job.Name)
	require.Nil(t, job.Type, "a field that the file does not set is for whoever canonicalises")
	require.Equal(t, nomad.PeriodicSpecCron, *job.Periodic.SpecType)
	g := job.TaskGroups[0]
	require.Equal(t, "horizontal", g.Scaling.Type)
	require.Equal(t, []nomad.Port{{Label: "fixed", Value: 80}}, g.Networks[0].ReservedPorts)
	require.Equal(t, []nomad.Port{{Label: "any"}}, g.Networks[0].DynamicPorts)
	task := g.Tasks[0]
	require.Equal(t, "vertical_mem", task.ScalingPolicies[0].Type)
	require.Equal(t, "restart", *task.Templates[0].ChangeMode)
	require.Equal(t, "0644", *task.Templates[0].Perms)
	require.Equal(t, 5*time.Second, *task.Templates[0].Splay)
	require.True(t, task.Identity.Env)
	require.Len(t, task.Identities, 1)
	require.Equal(t, "other", task.Identities[0].Name)
}

// The decoder follows the tags of api.Job wherever they lead. What it finds there has
// to be of a kind that it knows; this tells when another version of api brings a new
// one.
func TestEveryFieldOfAJobCanBeDecoded(t *testing.T) {
	seen := map[reflect.Type]bool{}
	fields := 0
	var visit func(path string, t reflect.Type)
	check := func(path string, field reflect.StructField, kind string) {
		fields++
		ft := field.Type
		switch {
		case kind == "label":
			require.Contains(t, []string{"string", "*string"}, ft.String(), path)
		case kind == "block":
			if isFreeMap(ft) {
				return
			}
			for ft.Kind() == reflect.Pointer || ft.Kind() == reflect.Slice || ft.Kind() == reflect.Map {
				ft = ft.Elem()
			}
			require.Equal(t, reflect.Struct, ft.Kind(), path)
			visit(path, ft)
		case ft == durationType || ft == reflect.PointerTo(durationType) || ft == reflect.TypeFor[map[string]any]():
		default:
			_, err := gocty.ImpliedType(reflect.New(ft).Interface())
			require.NoError(t, err, path)
		}
	}
	visit = func(path string, st reflect.Type) {
		if seen[st] {
			return
		}
		seen[st] = true
		for i := range st.NumField() {
			field := st.Field(i)
			name, kind, _ := strings.Cut(field.Tag.Get("hcl"), ",")
			if field.Tag.Get("hcl") != "" && name != "-" {
				check(path+"."+field.Name, field, kind)
			}
		}
	}
	visit("Job", reflect.TypeFor[nomad.Job]())
	require.Greater(t, fields, 200)
}

func TestParsedNumbersCanBeEncodedAsJSON(t *testing.T) {
	_, err := json.Marshal(onlyTask(t, inTask("config {\n a = [1e300, log(1, 2)]\n}")))
	require.NoError(t, err)
	_, err = parse(inTask("config {\n a = pow(10, 1000)\n}"))
	require.EqualError(t, err, "job.hcl:5,6: Unsuitable value; the number is too large.")
}
