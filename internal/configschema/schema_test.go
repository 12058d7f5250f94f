package configschema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/configschema"
)

const web = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "required": ["image"],
  "$defs": {"duration": {"type": ["string", "integer"], "pattern": "^[0-9]+s$", "minimum": 0, "default": 0}},
  "properties": {
    "image": {"type": "string", "minLength": 1},
    "args": {"type": "array", "items": {"type": "string"}, "default": []},
    "exit_code": {"type": "integer", "default": 0, "minimum": 0, "maximum": 255},
    "ratio": {"type": "number"},
    "privileged": {"type": "boolean", "default": false},
    "pull": {"enum": ["always", "never"], "default": "never"},
    "kill_after": {"$ref": "#/$defs/duration", "description": "x"},
    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    "auth": {
      "type": "object",
      "required": ["user"],
      "properties": {"user": {"type": "string"}, "tls": {"type": "boolean", "default": true}}
    },
    "network": {"type": "object", "additionalProperties": {"type": "object", "properties": {"mtu": {"type": "integer", "default": 1500}}}},
    "mounts": {"type": "array", "maxItems": 3, "items": {
      "type": "object",
      "required": ["source", "target"],
      "properties": {
        "source": {"type": "string"},
        "target": {"type": "string", "pattern": "^/"},
        "read_only": {"type": "boolean", "default": true}
      }}},
    "port": {"oneOf": [{"type": "integer"}, {"type": "object", "required": ["from"], "properties": {"from": {"type": "integer"}}}]},
    "free": {}
  }
}`

func compile(t testing.TB, text string) *configschema.Schema {
	t.Helper()
	s, err := configschema.Compile(text)
	require.NoError(t, err)
	return s
}

type block = map[string]any

func TestAConfigurationIsFittedToItsSchema(t *testing.T) {
	const defaults = `"args":[],"exit_code":0,"kill_after":0,"privileged":false,"pull":"never"`
	tests := map[string]struct {
		config block
		want   string
	}{
		"defaults are applied": {
			block{"image": "a"}, `{` + defaults + `,"image":"a"}`},
		"a nested block is a list of one map": {
			block{"image": "a", "auth": []map[string]any{{"user": "u"}}},
			`{` + defaults + `,"image":"a","auth":{"user":"u","tls":true}}`},
		"defaults are applied in items": {
			block{"image": "a", "mounts": []any{block{"source": "s", "target": "/t"}}},
			`{` + defaults + `,"image":"a","mounts":[{"source":"s","target":"/t","read_only":true}]}`},
		"a single block is a list where the schema wants one": {
			block{"image": "a", "mounts": block{"source": "s", "target": "/t"}},
			`{` + defaults + `,"image":"a","mounts":[{"source":"s","target":"/t","read_only":true}]}`},
		"labelled blocks become one object": {
			block{"image": "a", "network": []any{block{"eth0": []any{block{"mtu": 9000}}}, block{"eth1": []any{block{}}}}},
			`{` + defaults + `,"image":"a","network":{"eth0":{"mtu":9000},"eth1":{"mtu":1500}}}`},
		"a block of free keys": {
			block{"image": "a", "labels": []map[string]any{{"a.b": "c"}}},
			`{` + defaults + `,"image":"a","labels":{"a.b":"c"}}`},
		"whole numbers come in any of Go's types": {
			block{"image": "a", "exit_code": 3.0, "ratio": uint8(2)},
			`{"args":[],"kill_after":0,"privileged":false,"pull":"never","exit_code":3,"image":"a","ratio":2}`},
		"JSON's numbers": {
			block{"image": "a", "exit_code": json.Number("3"), "ratio": json.Number("0.5")},
			`{"args":[],"kill_after":0,"privileged":false,"pull":"never","exit_code":3,"image":"a","ratio":0.5}`},
		"interpolated values are strings": {
			block{"image": "a", "exit_code": "7", "ratio": "1.5", "privileged": "true"},
			`{"args":[],"kill_after":0,"pull":"never","exit_code":7,"image":"a","ratio":1.5,"privileged":true}`},
		"a string stays one where the schema takes strings": {
			block{"image": "5", "kill_after": "5s"}, `{"args":[],"exit_code":0,"privileged":false,"pull":"never","image":"5","kill_after":"5s"}`},
		"null is as not given": {
			block{"image": "a", "args": nil, "auth": nil}, `{` + defaults + `,"image":"a"}`},
		"a choice of forms": {
			block{"image": "a", "port": []any{block{"from": "80"}}}, `{` + defaults + `,"image":"a","port":{"from":80}}`},
		"what the schema leaves open stays": {
			block{"image": "a", "free": []any{block{"x": 1}}}, `{` + defaults + `,"image":"a","free":[{"x":1}]}`},
	}
	s := compile(t, web)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := s.CheckJSON("config", tt.config)
			require.NoError(t, err)
			require.JSONEq(t, tt.want, string(got))
		})
	}
}

func TestEveryFaultIsNamedWithItsPath(t *testing.T) {
	tests := map[string]struct {
		config block
		want   string
	}{
		"missing":           {block{}, `config.image: missing`},
		"missing in a list": {block{"image": "a", "mounts": []any{block{"target": "/t"}}}, `config.mounts[0].source: missing`},
		"missing in a block": {block{"image": "a", "auth": []map[string]any{{}}},
			`config.auth.user: missing`},
		"unknown":                         {block{"image": "a", "imagee": 1}, `config.imagee: unknown field, did you mean "image"?`},
		"two letters have changed places": {block{"image": "a", "plul": true}, `config.plul: unknown field, did you mean "pull"?`},
		"unknown by a dash":               {block{"image": "a", "exit-code": 1}, `config.exit-code: unknown field, did you mean "exit_code"?`},
		"unknown, singular":               {block{"image": "a", "mount": []any{block{}}}, `config.mount: unknown field, did you mean "mounts"?`},
		"unknown like none":               {block{"image": "a", "zzzzzz": 1}, `config.zzzzzz: unknown field`},
		"unknown in a list": {block{"image": "a", "mounts": []any{block{"source": "a", "target": "/", "readonly": true}}},
			`config.mounts[0].readonly: unknown field, did you mean "read_only"?`},
		"a string for a list":        {block{"image": "a", "args": "x"}, `config.args: a string, want a list of strings`},
		"a list for a string":        {block{"image": []any{"a"}}, `config.image: a list, want a string`},
		"a number for a string":      {block{"image": 5}, `config.image: a number, want a string`},
		"a block for a string":       {block{"image": []any{block{"a": 1}}}, `config.image: a block or a map, want a string`},
		"blocks for a number":        {block{"image": "a", "exit_code": []any{block{}, block{}}}, `config.exit_code: a list of blocks, want a whole number`},
		"a block for a list":         {block{"image": "a", "args": []any{block{"a": "b"}}}, `config.args: a block or a map, want a list of strings`},
		"a map for a list":           {block{"image": "a", "args": block{"a": "b"}}, `config.args: a block or a map, want a list of strings`},
		"a list for a map":           {block{"image": "a", "labels": []any{"a"}}, `config.labels: a list, want a map of strings`},
		"a string for a map":         {block{"image": "a", "labels": "a"}, `config.labels: a string, want a map of strings`},
		"a label too many":           {block{"image": "a", "mounts": []any{block{"data": []any{block{"source": "s", "target": "/t"}}}}}, `config.mounts: a block with the label "data" or a map of blocks, want a list of blocks without labels`},
		"a map for a list of blocks": {block{"image": "a", "mounts": []any{block{"data": block{"source": "s", "target": "/t"}, "more": block{}}}}, `config.mounts: a block with the label "data" or a map of blocks, want a list of blocks without labels`},
		"a label too few":            {block{"image": "a", "network": []any{block{"mtu": 1}}}, `config.network: a block without a label, want blocks with one: network "NAME" { … }`},
		"a number in a list":         {block{"image": "a", "args": []any{"a", 5}}, `config.args[1]: a number, want a string`},
		"a word for a number":        {block{"image": "a", "exit_code": "x"}, `config.exit_code: a string, want a whole number`},
		"a fraction":                 {block{"image": "a", "exit_code": 1.5}, `config.exit_code: a number, want a whole number`},
		"a word for a boolean":       {block{"image": "a", "privileged": "yes"}, `config.privileged: a string, want true or false`},
		"a string for a block":       {block{"image": "a", "auth": "x"}, `config.auth: a string, want a block`},
		"too large":                  {block{"image": "a", "exit_code": 256}, `config.exit_code: 256, want at most 255`},
		"too small":                  {block{"image": "a", "exit_code": -1}, `config.exit_code: -1, want at least 0`},
		"not in the list":            {block{"image": "a", "pull": "x"}, `config.pull: "x", want one of "always", "never"`},
		"empty":                      {block{"image": ""}, `config.image: empty`},
		"pattern":                    {block{"image": "a", "mounts": []any{block{"source": "a", "target": "t"}}}, `config.mounts[0].target: "t" does not match ^/`},
		"a key that needs quotes":    {block{"image": "a", "labels": block{"a.b": 1}}, `config.labels["a.b"]: a number, want a string`},
		"a block twice":              {block{"image": "a", "auth": []any{block{"user": "a"}, block{"tls": true}}}, `config.auth: given 2 times, want one block`},
		"a label twice":              {block{"image": "a", "network": []any{block{"a": block{}}, block{"a": block{}}}}, `config.network: given 2 times, want one block`},
		"too many":                   {block{"image": "a", "mounts": []any{block{"source": "a", "target": "/"}, block{"source": "a", "target": "/"}, block{"source": "a", "target": "/"}, block{"source": "a", "target": "/"}}}, `config.mounts: 4 items, want at most 3`},
		"none of the forms":          {block{"image": "a", "port": "x"}, `config.port: fits none of the 2 forms allowed here (a string, want a whole number / a string, want a block)`},
		"several, sorted by path":    {block{"args": 1, "pul": 1}, `config.args: a number, want a list of strings; config.image: missing; config.pul: unknown field, did you mean "pull"?`},
		"a value without a meaning":  {block{"image": make(chan int)}, `config.image: a value of Go's type chan int has no meaning here`},
		"a number out of range":      {block{"image": "a", "ratio": json.Number("1e999999999")}, `config.ratio: "1e999999999" is not a number in range`},
	}
	s := compile(t, web)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := s.CheckJSON("config", tt.config)
			var faults *configschema.FaultsError
			require.ErrorAs(t, err, &faults)
			require.Equal(t, tt.want, err.Error())
		})
	}
}

func TestAnInvalidSchemaIsOneClearError(t *testing.T) {
	deep := strings.Repeat(`{"items":`, configschema.MaxDepth+1) + "{}" + strings.Repeat("}", configschema.MaxDepth+1)
	tests := map[string]struct{ text, want string }{
		"not JSON":            {`{`, `schema: not JSON: unexpected EOF`},
		"not an object":       {`[]`, `schema: not a JSON object`},
		"another type":        {`{"type":"string"}`, `schema: type is "string", want "object": a configuration is a block`},
		"another draft":       {`{"$schema":"http://json-schema.org/draft-07/schema#"}`, `schema: $schema is "http://json-schema.org/draft-07/schema#", want "https://json-schema.org/draft/2020-12/schema"`},
		"a type that is none": {`{"properties":{"a":{"type":"strin"}}}`, `schema: at /properties/a/type: "strin", want one of "array", "boolean", "integer", "null", "number", "object", "string"`},
		"a bad pattern":       {`{"properties":{"a":{"pattern":"("}}}`, "schema: at /properties/a/pattern: '(' is not valid regex: error parsing regexp: missing closing ): `(`"},
		"a remote reference":  {`{"$ref":"https://example.com/s.json"}`, `schema: failing loading "https://example.com/s.json": "https://example.com/s.json" is outside of the schema, and nothing is fetched`},
		"a file":              {`{"$ref":"file:///etc/passwd"}`, `schema: failing loading "file:///etc/passwd": "file:///etc/passwd" is outside of the schema, and nothing is fetched`},
		"a wrong default":     {`{"properties":{"a":{"type":"integer","default":"x"}}}`, `schema: default of config.a: a string, want a whole number`},
		"a huge number":       {`{"properties":{"a":{"minimum":1e999999}}}`, `schema: a number is out of range`},
		"too deep":            {deep, `schema: nested more than 64 deep`},
		"too large":           {`{"description":"` + strings.Repeat("x", configschema.MaxSchemaBytes) + `"}`, `schema: it has 262162 bytes, the limit is 262144`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := configschema.Compile(tt.text)
			require.EqualError(t, err, tt.want)
		})
	}
}

func TestTheBoundsAreAsStated(t *testing.T) {
	frame := len(`{"description":""}`)
	_, err := configschema.Compile(`{"description":"` + strings.Repeat("x", configschema.MaxSchemaBytes-frame) + `"}`)
	require.NoError(t, err)
	_, err = configschema.Compile(strings.Repeat(`{"items":`, configschema.MaxDepth-1) + "{}" + strings.Repeat("}", configschema.MaxDepth-1))
	require.NoError(t, err)

	open := compile(t, `{"additionalProperties":true}`)
	deep := func(levels int) any {
		var v any = "x"
		for range levels {
			v = []any{v}
		}
		return v
	}
	_, err = open.Check("config", block{"a": deep(configschema.MaxDepth - 1)})
	require.NoError(t, err)
	_, err = open.Check("config", block{"a": deep(configschema.MaxDepth)})
	require.ErrorContains(t, err, "nested more than 64 deep")

	many := make([]any, configschema.MaxValues-2)
	_, err = open.Check("config", block{"a": many})
	require.NoError(t, err)
	_, err = open.Check("config", block{"a": append(many, 1)})
	require.EqualError(t, err, "config: more than 50000 values")

	closed := compile(t, "")
	wrong := block{}
	for i := range 30 {
		wrong[strings.Repeat("x", i+1)] = 1
	}
	_, err = closed.Check("config", wrong)
	var faults *configschema.FaultsError
	require.ErrorAs(t, err, &faults)
	require.Len(t, faults.Faults, configschema.MaxFaults)
	require.Equal(t, 10, faults.More)
	require.True(t, strings.HasSuffix(err.Error(), "; and 10 more"))
}

func TestWhatASchemaDoesNotMentionIsForbidden(t *testing.T) {
	tests := map[string]struct {
		schema string
		fails  bool
	}{
		"empty":                    {``, true},
		"nothing said":             {`{}`, true},
		"only a type":              {`{"type":"object"}`, true},
		"said so":                  {`{"additionalProperties":false}`, true},
		"said otherwise":           {`{"additionalProperties":true}`, false},
		"said otherwise in a part": {`{"allOf":[{"additionalProperties":{"type":"integer"}}]}`, false},
		"unevaluated":              {`{"unevaluatedProperties":true}`, false},
		"by pattern":               {`{"patternProperties":{"^a":{}}}`, false},
		"in a part":                {`{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`, false},
		"in a reference":           {`{"$ref":"#/$defs/x","$defs":{"x":{"properties":{"a":{}}}}}`, false},
		"in one of two forms":      {`{"anyOf":[{"properties":{"a":{}}},{"required":["b"]}]}`, false},
		"another name":             {`{"properties":{"b":{}}}`, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := compile(t, tt.schema).Check("config", block{"a": 1})
			if !tt.fails {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "config.a: unknown field")
			require.Equal(t, tt.schema == "", strings.HasSuffix(err.Error(), ": the plugin describes no schema for it, and so takes none"), err)
		})
	}
}

func TestASchemaCannotAskForEndlessWork(t *testing.T) {
	doubled := func(keyword string) string {
		var b strings.Builder
		b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
		for i := range 40 {
			ref := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
			name := fmt.Sprintf("d%d", i)
			switch keyword {
			case "dependentSchemas":
				b.WriteString(`"` + name + `":{"dependentSchemas":{"a":` + ref + `,"b":` + ref + `}},`)
			default:
				b.WriteString(`"` + name + `":{"` + keyword + `":[` + ref + `,` + ref + `]},`)
			}
		}
		b.WriteString(`"d40":{"required":["never"]}}}`)
		return b.String()
	}
	nested := func(levels int) any {
		var v any = []any{"x"}
		for range levels {
			v = []any{v}
		}
		return v
	}
	value := block{"a": 1, "b": 1}
	tests := map[string]struct {
		schema string
		value  block
	}{
		"allOf":                {doubled("allOf"), value},
		"anyOf":                {doubled("anyOf"), value},
		"oneOf":                {doubled("oneOf"), value},
		"dependentSchemas":     {doubled("dependentSchemas"), value},
		"not dependentSchemas": {strings.Replace(doubled("dependentSchemas"), `{"$ref":"#/$defs/d0"`, `{"not":{"$ref":"#/$defs/d0"}`, 1), value},
		"contains and items": {`{"properties":{"v":{"not":{"$ref":"#/$defs/s"}}},"$defs":{"s":{"type":"array","items":{"$ref":"#/$defs/s"},"contains":{"$ref":"#/$defs/s"}}}}`,
			block{"v": nested(50)}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := compile(t, tt.schema).Check("config", tt.value)
			require.ErrorContains(t, err, "the schema is too complex")
		})
	}
}

func TestAsManyValuesAsAllowedCanBeChecked(t *testing.T) {
	s := compile(t, web)
	args := make([]any, configschema.MaxValues-10)
	for i := range args {
		args[i] = "x"
	}
	_, err := s.Check("config", block{"image": "a", "args": args})
	require.NoError(t, err)
	list := compile(t, strings.Replace(web, `"maxItems": 3,`, "", 1))
	mounts := make([]any, configschema.MaxValues/4)
	for i := range mounts {
		mounts[i] = block{"source": "s", "target": "/t", "read_only": true}
	}
	_, err = list.Check("config", block{"image": "a", "mounts": mounts[:len(mounts)-10]})
	require.NoError(t, err)
}

func TestASchemaThatRefersToItselfIsFollowedAsDeepAsTheValue(t *testing.T) {
	s := compile(t, `{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"integer","default":1},"next":{"$ref":"#/$defs/n"}}}}}`)
	got, err := s.CheckJSON("config", block{"next": []any{block{"next": block{}}}})
	require.NoError(t, err)
	require.JSONEq(t, `{"v":1,"next":{"v":1,"next":{"v":1}}}`, string(got))
	_, err = s.CheckJSON("config", block{"next": block{"nex": 1}})
	require.EqualError(t, err, `config.next.nex: unknown field, did you mean "next"?`)
}

func TestTheGivenConfigurationIsNotChanged(t *testing.T) {
	given := block{"image": "a", "auth": []any{block{"user": "u"}}}
	_, err := compile(t, web).Check("config", given)
	require.NoError(t, err)
	require.Equal(t, block{"image": "a", "auth": []any{block{"user": "u"}}}, given)
}

func TestDefaultsAreNeverShared(t *testing.T) {
	s := compile(t, `{"properties":{"a":{"type":"array","default":[1]}}}`)
	first, err := s.Check("config", nil)
	require.NoError(t, err)
	first["a"].([]any)[0] = 2
	second, err := s.Check("config", nil)
	require.NoError(t, err)
	require.Equal(t, block{"a": []any{int64(1)}}, second)
}

func TestChecksRunConcurrently(t *testing.T) {
	s := compile(t, web)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				_, err := s.Check("config", block{"image": "a"})
				if err != nil {
					t.Error(err)
				}
				_, err = s.Check("config", block{})
				if err == nil {
					t.Error("no fault")
				}
			}
		})
	}
	wg.Wait()
}

func TestTheExampleDriversSchemasCompile(t *testing.T) {
	for _, file := range []string{"mock/plugin_schema.json", "mock/task_schema.json", "java/plugin_schema.json", "java/task_schema.json"} {
		text, err := os.ReadFile("../../guest-examples/drivers/" + file)
		require.NoError(t, err)
		compile(t, string(text))
	}
}

func TestASchemaCannotHaveEndlessFields(t *testing.T) {
	var wide strings.Builder
	wide.WriteString(`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{`)
	for i := range 60 {
		fmt.Fprintf(&wide, `"a%d":{"type":"array","items":{"type":"object","properties":{"b":{"type":"object","properties":{"c":{"$ref":"#/$defs/m%d"}}}}}},`, i, i)
	}
	wide.WriteString(`"z":{}}}`)
	for i := range 60 {
		fmt.Fprintf(&wide, `,"m%d":{"type":"object","properties":{"x":{"$ref":"#/$defs/n"},"y":{"$ref":"#/$defs/m%d"}}}`, i, (i+1)%60)
	}
	wide.WriteString(`}}`)
	_, err := compile(t, wide.String()).Fields()
	require.ErrorContains(t, err, "the schema has more than 2000 fields")

	_, err = compile(t, `{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":["array","object"],"items":{"$ref":"#/$defs/a"},"additionalProperties":{"$ref":"#/$defs/a"},"not":{}}}}`).Fields()
	require.NoError(t, err, "an example of it is looked for, and there is none")
}

func FuzzCheck(f *testing.F) {
	f.Add(web, `{"image":"a","auth":[{"user":"u"}],"mounts":[{"source":1}]}`)
	f.Add(`{"anyOf":[{"properties":{"a":{}}},{"$ref":"#"}]}`, `{"a":[[[1]]]}`)
	f.Add(`{"not":{"contains":{"const":null}},"patternProperties":{"a*":{"$dynamicRef":"#x"}}}`, `{"a":null}`)
	f.Add(`{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}`, `{"b":1e30}`)
	f.Fuzz(func(t *testing.T, text, config string) {
		slow := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("too slow: %q %q", text, config)) })
		defer slow.Stop()
		s, err := configschema.Compile(text)
		if err != nil {
			oneLine(t, err)
			return
		}
		if _, err := s.Fields(); err != nil {
			oneLine(t, err)
		}
		var value map[string]any
		if json.Unmarshal([]byte(config), &value) != nil {
			return
		}
		first, err := s.CheckJSON("config", value)
		if err != nil {
			var faults *configschema.FaultsError
			if !errors.As(err, &faults) || len(faults.Faults) == 0 || len(faults.Faults) > configschema.MaxFaults {
				t.Fatalf("not a list of faults: %v", err)
			}
			oneLine(t, err)
			return
		}
		// What was taken once is taken again, as it is.
		var again map[string]any
		if err := json.Unmarshal(first, &again); err != nil {
			t.Fatal(err)
		}
		if _, err := s.CheckJSON("config", again); err != nil {
			t.Fatalf("taken first, then refused: %v\n%s", err, first)
		}
	})
}

func oneLine(t *testing.T, err error) {
	if strings.Contains(err.Error(), "\n") {
		t.Fatalf("more than one line: %q", err)
	}
}

func BenchmarkCheck(b *testing.B) {
	s := compile(b, web)
	config := block{"image": "a", "args": []any{"x", "y"}, "mounts": []any{block{"source": "s", "target": "/t"}}}
	for b.Loop() {
		if _, err := s.CheckJSON("config", config); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		compile(b, web)
	}
}
