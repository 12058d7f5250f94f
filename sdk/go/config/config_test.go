package config_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
)

func ExampleParse() {
	c, err := config.Parse([]byte(`{"module": "local/app.wasm", "args": ["-v"], "limits": {"retries": 3}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Get("module").Text(), c.Get("args").Texts(), c.Get("limits", "retries").Int())
	// Output: local/app.wasm [-v] 3
}

func TestNoInputIsAnEmptyObject(t *testing.T) {
	v, err := config.Parse(nil)
	expect.NoError(t, err)
	expect.Equal(t, v.Kind(), config.Object)
	expect.True(t, !v.Get("anything", "below").IsSet())
}

func TestBadInputIsRefusedAtItsByte(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1,}`:   "json: byte 7: want a member's name",
		`[1 2]`:      "json: byte 3: want ',' or ']'",
		`{"a" 1}`:    "json: byte 5: want ':'",
		`01`:         "json: byte 1: more after the value",
		`-`:          "json: byte 1: want a digit",
		`1.`:         "json: byte 2: want a digit after the point",
		`1e+`:        "json: byte 3: want a digit in the exponent",
		`nul`:        "json: byte 0: want null",
		`"a`:         "json: byte 2: string without an end",
		`"\x"`:       "json: byte 2: no such escape in a string",
		`"\u12"`:     "json: byte 3: want four hexadecimal digits",
		"\"a\nb\"":   "json: byte 2: control character in a string",
		`{} {}`:      "json: byte 3: more after the value",
		`'single'`:   "json: byte 0: want a value",
		"\x00":       "json: byte 0: want a value",
		`{"a":truE}`: "json: byte 5: want true",
	} {
		_, err := config.Parse([]byte(in))
		expect.Message(t, err, want, in)
	}
}

func TestDepthIsBounded(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	_, err := config.Parse(nested(config.MaxDepth + 1))
	expect.NoError(t, err)
	_, err = config.Parse(nested(config.MaxDepth + 2))
	expect.ErrorContains(t, err, "nested too deep")
}

func TestNumbersAreCutToTheirRange(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "-7": -7, "3.9": 3, "1e3": 1000, "1e300": math.MaxInt64, "-1e300": math.MinInt64,
		"9223372036854775807": math.MaxInt64, "9223372036854775808": math.MaxInt64, `"7"`: 0,
	} {
		v, err := config.Parse([]byte(in))
		expect.NoError(t, err)
		expect.Equal(t, v.Int(), want, in)
	}
}

func TestDurationsAreTextOrNanoseconds(t *testing.T) {
	for in, want := range map[string]time.Duration{`"1m30s"`: 90 * time.Second, "5": 5, "null": 0} {
		v, err := config.Parse([]byte(in))
		expect.NoError(t, err)
		d, err := v.Duration()
		expect.NoError(t, err)
		expect.Equal(t, d, want)
	}
	for _, in := range []string{`"soon"`, "true", "[]"} {
		v, err := config.Parse([]byte(in))
		expect.NoError(t, err)
		_, err = v.Duration()
		expect.True(t, err != nil, in)
	}
}

// plain gives a Value the form that encoding/json decodes into.
func plain(v config.Value) any {
	switch v.Kind() {
	case config.Bool:
		return v.Bool()
	case config.Number:
		return v.Float()
	case config.String:
		return v.Text()
	case config.List:
		list := make([]any, 0)
		for _, item := range v.Items() {
			list = append(list, plain(item))
		}
		return list
	case config.Object:
		object := make(map[string]any)
		for _, f := range v.Fields() {
			object[f.Name] = plain(f.Value)
		}
		return object
	default:
		return nil
	}
}

func FuzzParseAgreesWithEncodingJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,2.5e-3,"x\u00e9\ud83d\ude00\ud800",true,false,null],"b":{}}`, `"\u0000\/\b"`, "\"\xff\"", ` [ ] `, "-0", `{"a":1,"a":2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := config.Parse(in)
		if strings.TrimLeft(string(in), " \t\r\n") == "" {
			expect.NoError(t, err)
			return
		}
		var want any
		wantErr := json.Unmarshal(in, &want)
		if err != nil {
			if strings.Contains(err.Error(), "nested too deep") {
				return
			}
			expect.True(t, wantErr != nil, err, "but encoding/json takes it")
			return
		}
		if wantErr != nil {
			// The one thing that encoding/json refuses here: numbers out of range.
			expect.ErrorContains(t, wantErr, "cannot unmarshal number")
			return
		}
		expect.Equal(t, plain(got), want)
	})
}
