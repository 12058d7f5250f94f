package hclvalue

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"
)

func TestPlain(t *testing.T) {
	huge, _, err := big.ParseFloat("1e400", 10, 512, big.ToNearestEven)
	require.NoError(t, err)
	one := cty.NumberIntVal(1)
	cases := map[string]struct {
		value cty.Value
		want  any
		err   string
	}{
		"text":             {value: cty.StringVal("a"), want: "a"},
		"yes":              {value: cty.True, want: true},
		"whole":            {value: cty.NumberIntVal(1 << 53), want: int64(1 << 53)},
		"whole as a float": {value: cty.NumberFloatVal(2.0), want: int64(2)},
		"largest int64":    {value: cty.NumberIntVal(1<<63 - 1), want: int64(1<<63 - 1)},
		"beyond int64":     {value: cty.NumberUIntVal(1 << 63), want: float64(1 << 63)},
		"fraction":         {value: cty.NumberFloatVal(0.5), want: 0.5},
		"tiny":             {value: cty.NumberVal(new(big.Float).Quo(big.NewFloat(1), huge)), want: 0.0},
		"beyond float64":   {value: cty.NumberVal(huge), err: "the number is too large"},
		"infinite":         {value: cty.PositiveInfinity, err: "the number is too large"},
		"null":             {value: cty.NullVal(cty.String)},
		"unknown":          {value: cty.DynamicVal},
		"marked":           {value: cty.StringVal("a").Mark("secret"), want: "a"},
		"list":             {value: cty.ListVal([]cty.Value{one}), want: []any{int64(1)}},
		"set":              {value: cty.SetVal([]cty.Value{one, one}), want: []any{int64(1)}},
		"empty":            {value: cty.ListValEmpty(cty.String), want: []any{}},
		"tuple":            {value: cty.TupleVal([]cty.Value{one, cty.True}), want: []any{int64(1), true}},
		"map":              {value: cty.MapVal(map[string]cty.Value{"a": one}), want: map[string]any{"a": int64(1)}},
		"object": {
			value: cty.ObjectVal(map[string]cty.Value{"a": cty.NullVal(cty.String), "b": cty.True.Mark(1)}),
			want:  map[string]any{"a": nil, "b": true},
		},
		"type":                  {value: typeexpr.TypeConstraintVal(cty.String), err: "a type constraint is not a plain value"},
		"infinite, in a list":   {value: cty.TupleVal([]cty.Value{cty.NegativeInfinity}), err: "the number is too large"},
		"infinite, in a object": {value: cty.ObjectVal(map[string]cty.Value{"a": cty.NegativeInfinity}), err: "the number is too large"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Plain(c.value)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			_, err = json.Marshal(got)
			require.NoError(t, err)
		})
	}
}

func TestBody(t *testing.T) {
	cases := map[string]struct {
		content string
		want    string // as JSON
		faults  []string
	}{
		"empty":      {want: `{}`},
		"attributes": {content: "a = 1\nb = [true, null]\nc = { d = \"e\" }", want: `{"a": 1, "b": [true, null], "c": {"d": "e"}}`},
		"a block":    {content: "a {\n b = 1\n}", want: `{"a": [{"b": 1}]}`},
		"blocks":     {content: "a {\n b = 1\n}\na {}", want: `{"a": [{"b": 1}, {}]}`},
		"labels":     {content: "a \"x\" \"y\" {\n b = 1\n}", want: `{"a": [{"x": [{"y": [{"b": 1}]}]}]}`},
		"reference":  {content: "a = b", faults: []string{"f:1,5: Variables not allowed; Variables may not be used here."}},
		"in a block": {content: "a {\n b = c\n}", faults: []string{"f:2,6: Variables not allowed; Variables may not be used here."}},
		"too large":  {content: "a = 1e999", faults: []string{`f:1,5: Unsuitable value for "a"; the number is too large.`}},
		"both": {
			content: "a {}\na = 1",
			faults:  []string{`f:1,1: Duplicate "a"; it is an argument already, at f:2,1-2.`},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			body, diags := ParseFile("f", []byte(c.content))
			require.Empty(t, Lines(diags))
			got, diags := Body(body, nil)
			require.Equal(t, c.faults, Lines(diags))
			if c.faults != nil {
				return
			}
			text, err := json.Marshal(got)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(text))
		})
	}
}
