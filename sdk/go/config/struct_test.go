package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
)

// all has a field of each type.
type all struct {
	Text    string
	On      bool
	N       int64
	F       float64
	Every   time.Duration
	Args    []string
	Labels  map[string]string
	Extra   config.Value
	Limits  limits
	Auth    *auth
	Mounts  []mount
	Nets    map[string]net
	Ported  int64
	hasPort bool
}

type limits struct{ Retries int64 }

type auth struct{ User, Password string }

type mount struct {
	From     string
	ReadOnly bool
}

type net struct {
	MTU   int64
	Names []string
}

func (a *all) fields(f *config.Fields) {
	f.String(&a.Text, "text", "A text.").Default("a \"text\"\n")
	f.Bool(&a.On, "on", "").Default(true)
	f.Int(&a.N, "n", "").Default(-7)
	f.Float(&a.F, "f", "").Default(1e-3)
	f.Duration(&a.Every, "every", "").Default(90 * time.Second)
	f.Strings(&a.Args, "args", "").Default([]string{"-v"})
	f.Map(&a.Labels, "labels", "").Default(map[string]string{"b": "2", "a": "1"})
	f.Any(&a.Extra, "extra", "")
	config.Block(f, &a.Limits, "limits", "", (*limits).fields)
	config.OptionalBlock(f, &a.Auth, "auth", "", (*auth).fields)
	config.Blocks(f, &a.Mounts, "mount", "", (*mount).fields)
	config.LabelledBlocks(f, &a.Nets, "net", "", (*net).fields)
	f.Int(&a.Ported, "port", "").Given(&a.hasPort)
}

func (l *limits) fields(f *config.Fields) { f.Int(&l.Retries, "retries", "").Default(3) }

func (a *auth) fields(f *config.Fields) {
	f.String(&a.User, "user", "").Required()
	f.String(&a.Password, "password", "").Secret()
}

func (m *mount) fields(f *config.Fields) {
	f.String(&m.From, "from", "").Required()
	f.Bool(&m.ReadOnly, "read_only", "").Default(true)
}

func (n *net) fields(f *config.Fields) {
	f.Int(&n.MTU, "mtu", "").Default(1500)
	f.Strings(&n.Names, "names", "")
}

var alls = config.For((*all).fields)

func ExampleFor() {
	type task struct {
		image string
		args  []string
	}
	tasks := config.For(func(t *task, f *config.Fields) {
		f.String(&t.image, "image", "The image to run.").Required().NotEmpty()
		f.Strings(&t.args, "args", "The arguments.")
	})
	fmt.Println(tasks.Schema())
	t, err := tasks.Decode([]byte(`{"image": "redis:7", "args": ["-v"]}`))
	fmt.Println(t.image, t.args, err)
	_, err = tasks.Decode([]byte(`{"image": 7}`))
	fmt.Println(err)
	// Output:
	// {"type":"object","additionalProperties":false,"properties":{"image":{"type":"string","description":"The image to run.","minLength":1},"args":{"type":"array","description":"The arguments.","items":{"type":"string"}}},"required":["image"]}
	// redis:7 [-v] <nil>
	// config.image: a number, want a string
}

func TestWhatIsLeftOutHasItsDefault(t *testing.T) {
	want := all{
		Text: "a \"text\"\n", On: true, N: -7, F: 1e-3, Every: 90 * time.Second, Args: []string{"-v"},
		Labels: map[string]string{"a": "1", "b": "2"}, Limits: limits{3},
	}
	for _, in := range []string{"", "{}", `{"text": null, "mount": null, "auth": null, "limits": null, "port": null}`} {
		got, err := alls.Decode([]byte(in))
		expect.NoError(t, err)
		expect.Equal(t, got, want, in)
	}
}

func TestWhatIsGivenIsInTheStruct(t *testing.T) {
	got, err := alls.Decode([]byte(`{
		"text": "", "on": false, "n": 1e2, "f": -2, "every": 5, "args": [], "labels": {}, "extra": [1],
		"limits": {"retries": 9223372036854775807}, "auth": {"user": "me", "password": "x"},
		"mount": [{"from": "/a"}, {"from": "/b", "read_only": false}], "net": {"front": {"mtu": 9000, "names": ["a"]}, "back end": {}}, "port": 0
	}`))
	expect.NoError(t, err)
	expect.Equal(t, len(got.Extra.Items()), 1)
	got.Extra = config.Value{}
	expect.Equal(t, got, all{
		N: 100, F: -2, Every: 5, Args: []string{}, Labels: map[string]string{},
		Limits: limits{math.MaxInt64}, Auth: &auth{"me", "x"}, Mounts: []mount{{"/a", true}, {"/b", false}},
		Nets: map[string]net{"front": {9000, []string{"a"}}, "back end": {MTU: 1500}}, hasPort: true,
	})
}

func TestWhatCannotBeReadIsNamed(t *testing.T) {
	for in, want := range map[string]string{
		`{"text": 1}`:                            "config.text: a number, want a string",
		`{"on": "true"}`:                         "config.on: a string, want a boolean",
		`{"n": 1.5}`:                             "config.n: a number, want a whole number",
		`{"n": 9223372036854775808}`:             "config.n: the number is out of range",
		`{"n": 9007199254740993.0}`:              "", // exact is what a float64 makes of it
		`{"n": 9007199254740994.0}`:              "config.n: the number is out of range",
		`{"f": []}`:                              "config.f: a list, want a number",
		`{"every": "soon"}`:                      `config.every: a string, want a duration such as "5s"`,
		`{"every": "-5s"}`:                       `config.every: a string, want a duration such as "5s"`,
		`{"every": true}`:                        `config.every: a boolean, want a duration such as "5s"`,
		`{"args": "a"}`:                          "config.args: a string, want a list of strings",
		`{"args": ["a", {}]}`:                    "config.args[1]: a block or a map, want a string",
		`{"labels": {"a.b": 1}}`:                 `config.labels["a.b"]: a number, want a string`,
		`{"labels": []}`:                         "config.labels: a list, want a map of strings",
		`{"limits": {"retries": {}}}`:            "config.limits.retries: a block or a map, want a whole number",
		`{"limits": []}`:                         "config.limits: a list, want a block",
		`{"auth": {"password": "x"}}`:            "config.auth.user: missing",
		`{"auth": {"user": null}}`:               "config.auth.user: missing",
		`{"mount": {}}`:                          "config.mount: a block or a map, want a list of blocks",
		`{"mount": [{"from": "a"}, {"from":1}]}`: "config.mount[1].from: a number, want a string",
		`{"mount": [1]}`:                         "config.mount[0]: a number, want a block",
		`{"net": {"front": {"mtu": "x"}}}`:       "config.net.front.mtu: a string, want a whole number",
		`{"net": [1]}`:                           "config.net: a list, want blocks with labels",
		`{"text": 1, "n": ""}`:                   "config.text: a number, want a string",
		`{"txt": 1}`:                             "config.txt: unknown field",
		`{"mount": [{"from": "a", "to": "b"}]}`:  "config.mount[0].to: unknown field",
		`[]`:                                     "config: a list, want a block",
		`{`:                                      "json: byte 1: want a member's name",
	} {
		got, err := alls.Decode([]byte(in))
		if want == "" {
			expect.NoError(t, err)
			continue
		}
		expect.Message(t, err, want, in)
		expect.Code(t, err, abi.InvalidArgument, in)
		expect.Equal(t, got, all{}, in)
	}
}

func TestTheErrorOfAFieldHasItsPath(t *testing.T) {
	_, err := alls.Decode([]byte(`{"net": {"front": {"names": [1]}}}`))
	var fault *config.FieldError
	expect.True(t, errors.As(err, &fault))
	expect.Equal(t, fault.Path, "config.net.front.names[0]")
}

// limited has all that is said of values beside their types.
type limited struct {
	name, mode string
	args       []string
	modes      map[string]string
	n          int64
	f          float64
	mounts     []mount
	sub        auth
}

func (l *limited) fields(f *config.Fields) {
	f.String(&l.name, "name", "").Required().NotEmpty().AtMost(4).Pattern("^[a-z\\\\]*$").Deprecated()
	f.String(&l.mode, "mode", "").OneOf("", "host")
	f.Strings(&l.args, "args", "").NotEmpty().AtLeast(1).AtMost(2).Unique()
	f.Map(&l.modes, "modes", "").OneOf("ro", "rw")
	f.Int(&l.n, "n", "").AtLeast(-1).AtMost(1e6)
	f.Float(&l.f, "f", "").AtLeast(0.5)
	config.Blocks(f, &l.mounts, "mount", "", (*mount).fields).AtMost(1)
	config.Block(f, &l.sub, "sub", "", (*auth).fields)
}

func compile(t testing.TB, schema string) *jsonschema.Schema {
	t.Helper()
	expect.True(t, json.Valid([]byte(schema)), schema)
	compiler := jsonschema.NewCompiler()
	compiler.Draft = jsonschema.Draft2020
	expect.NoError(t, compiler.AddResource("mem:///s.json", strings.NewReader(schema)))
	compiled, err := compiler.Compile("mem:///s.json")
	expect.NoError(t, err)
	return compiled
}

func valid(t testing.TB, s *jsonschema.Schema, document string) bool {
	t.Helper()
	var v any
	decoder := json.NewDecoder(strings.NewReader(document))
	decoder.UseNumber()
	expect.NoError(t, decoder.Decode(&v))
	return s.Validate(v) == nil
}

func TestTheSchemaHasWhatIsSaidOfValues(t *testing.T) {
	schema := compile(t, config.For((*limited).fields).Schema())
	const fine = `"name": "a", "sub": {"user": "u"}`
	for part, want := range map[string]bool{
		fine:                                               true,
		`"name": "a"`:                                      false, // what is required in a block has the block required
		`"sub": {"user": "u"}`:                             false,
		`"sub": {"user": "u"}, "name":""`:                  false,
		`"name": "abcde", "sub": {"user": "u"}`:            false,
		`"name": "a\\", "sub": {"user": "u"}`:              true,
		`"name": "A", "sub": {"user": "u"}`:                false,
		fine + `, "mode": ""`:                              true,
		fine + `, "mode": "other"`:                         false,
		fine + `, "args": []`:                              false,
		fine + `, "args": [""]`:                            false,
		fine + `, "args": ["a", "a"]`:                      false,
		fine + `, "args": ["a", "b"]`:                      true,
		fine + `, "args": ["a", "b", "c"]`:                 false,
		fine + `, "modes": {"x": "rw"}`:                    true,
		fine + `, "modes": {"x": "r"}`:                     false,
		fine + `, "n": -1, "f": 0.5`:                       true,
		fine + `, "n": -2`:                                 false,
		fine + `, "n": 1000001`:                            false,
		fine + `, "f": 0.4`:                                false,
		fine + `, "mount": [{"from": "a"}]`:                true,
		fine + `, "mount": [{"from": "a"}, {"from": "b"}]`: false,
	} {
		expect.Equal(t, valid(t, schema, "{"+part+"}"), want, part)
	}
	var text struct {
		Properties map[string]struct {
			Deprecated bool
			Properties map[string]struct{ WriteOnly bool }
		}
	}
	expect.NoError(t, json.Unmarshal([]byte(config.For((*limited).fields).Schema()), &text))
	expect.True(t, text.Properties["name"].Deprecated && !text.Properties["n"].Deprecated)
	expect.True(t, text.Properties["sub"].Properties["password"].WriteOnly)
}

func TestADeclarationThatIsNoneIsFound(t *testing.T) {
	type pair struct{ a, b string }
	var elsewhere string
	for want, declare := range map[string]func(*pair, *config.Fields){
		"config: config_test.pair.b is not declared: declare it, or take it out of the struct": func(p *pair, f *config.Fields) { f.String(&p.a, "a", "") },
		"config: the field b is not read into the config_test.pair whose fields are declared, or another is read into the same": func(p *pair, f *config.Fields) {
			f.String(&p.a, "a", "")
			f.String(&p.b, "c", "")
			f.String(&elsewhere, "b", "")
		},
		"config: two fields are called a":          func(p *pair, f *config.Fields) { f.String(&p.a, "a", ""); f.String(&p.b, "a", "") },
		"config: \"1a\" is no name in HCL":         func(p *pair, f *config.Fields) { f.String(&p.a, "1a", "") },
		"config: the field a cannot have Unique":   func(p *pair, f *config.Fields) { f.String(&p.a, "a", "").Unique() },
		"config: the field n cannot have NotEmpty": func(_ *pair, f *config.Fields) { f.Int(new(int64), "n", "").NotEmpty() },
		"config: the field n cannot have OneOf":    func(_ *pair, f *config.Fields) { f.Int(new(int64), "n", "").OneOf() },
		"config: the field n cannot have Pattern":  func(_ *pair, f *config.Fields) { f.Any(new(config.Value), "n", "").Pattern("a") },
		"config: the field d cannot have AtLeast":  func(_ *pair, f *config.Fields) { f.Duration(new(time.Duration), "d", "").AtLeast(1) },
		"config: the field n cannot have AtMost":   func(_ *pair, f *config.Fields) { f.Float(new(float64), "n", "").AtMost(math.NaN()) },
		"config: the field m cannot have Default": func(_ *pair, f *config.Fields) {
			config.Blocks(f, new([]mount), "m", "", (*mount).fields).Default(nil)
		},
	} {
		func() {
			defer func() { expect.Equal(t, recover(), any(want)) }()
			config.For(declare).Schema()
		}()
	}
}

// A struct in a struct can be declared as part of it.
func TestTheFieldsOfAStructWithinAreThoseOfTheBlock(t *testing.T) {
	type shared struct{ user string }
	type task struct {
		shared
		name string
	}
	tasks := config.For(func(t *task, f *config.Fields) {
		f.String(&t.user, "user", "")
		f.String(&t.name, "name", "")
	})
	got, err := tasks.Decode([]byte(`{"user": "u", "name": "n"}`))
	expect.NoError(t, err)
	expect.Equal(t, got, task{shared{"u"}, "n"})
	expect.True(t, valid(t, compile(t, tasks.Schema()), `{"user": "u", "name": "n"}`))
}

// longExponent is a number that the test's library of schemas would take forever for.
var longExponent = regexp.MustCompile(`[eE][+-]?[0-9]{4}`)

func FuzzWhatTheSchemaTakesIsReadAndNothingElse(f *testing.F) {
	for _, seed := range []string{
		`{"text":"","on":true,"n":1,"f":2,"every":"1m","args":["a"],"labels":{"a":"b"},"extra":{},"limits":{"retries":1}}`,
		`{"auth":{"user":"u","password":"p"},"mount":[{"from":"a","read_only":true}],"net":{"x":{"mtu":1,"names":[]}},"port":1}`,
		`{"n":1.0}`, `{"n":1.5}`, `{"every":-1}`, `{"every":"1x"}`, `{"every":1.5}`, `{"mount":[{}]}`, `{"net":{"x":1}}`, `{"auth":{}}`, `[]`, `{"x":1}`, `{"text":1}`,
	} {
		f.Add(seed)
	}
	schema := compile(f, alls.Schema())
	f.Fuzz(func(t *testing.T, document string) {
		var parsed any
		decoder := json.NewDecoder(strings.NewReader(document))
		decoder.UseNumber()
		if decoder.Decode(&parsed) != nil || strings.Contains(document, "null") || longExponent.MatchString(document) {
			return // a null is what the node has taken out
		}
		written, err := json.Marshal(parsed) // each member once, as the node writes it
		expect.NoError(t, err)
		document = string(written)
		_, err = alls.Decode(written)
		if valid(t, schema, document) {
			if err != nil && !strings.HasSuffix(err.Error(), "out of range") && !strings.Contains(err.Error(), "want a duration") && !strings.Contains(err.Error(), "nested too deep") {
				t.Fatalf("the schema takes %s: %v", document, err)
			}
		} else if err == nil && !strings.Contains(document, "every") {
			t.Fatalf("the schema refuses %s", document)
		}
	})
}
