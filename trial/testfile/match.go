package testfile

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// Functions in what a test expects make an object with one of these attributes, whose value is
// their argument. No field is called so.
const (
	containsKey = "\x00contains"
	matchesKey  = "\x00matches"
)

// functions are those of a test file's expressions.
var functions = map[string]function.Function{
	"contains": matcher(containsKey, cty.DynamicPseudoType, func(cty.Value) error { return nil }),
	"matches": matcher(matchesKey, cty.String, func(v cty.Value) error {
		_, err := regexp.Compile(v.AsString())
		return err
	}),
}

func matcher(key string, of cty.Type, check func(cty.Value) error) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "want", Type: of}},
		Type: func(args []cty.Value) (cty.Type, error) {
			if err := check(args[0]); err != nil {
				return cty.NilType, function.NewArgError(0, err)
			}
			return cty.Object(map[string]cty.Type{key: args[0].Type()}), nil
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.ObjectVal(map[string]cty.Value{key: args[0]}), nil
		},
	})
}

// isMatcher reports whether a value was made by a function of these.
func isMatcher(v any) bool {
	m, _ := v.(map[string]any)
	return len(m) == 1 && (hasKey(m, containsKey) || hasKey(m, matchesKey))
}

// matched is what a function was given, or the value itself.
func matched(v any) any {
	if isMatcher(v) {
		return v.(map[string]any)[sorted(v.(map[string]any))[0]]
	}
	return v
}

func hasKey(m map[string]any, key string) bool {
	_, has := m[key]
	return has
}

// compare says how a value is not what is wanted; empty: it is. Of an object only the attributes
// count that are wanted, a list is as long as the one that is wanted, and a value that is not there
// is zero, empty or false.
func compare(at string, want, got any) string {
	switch w := want.(type) {
	case map[string]any:
		if isMatcher(w) {
			return compareMatcher(at, w, got)
		}
		g, is := got.(map[string]any)
		if got != nil && !is {
			return differs(at, want, got)
		}
		for _, name := range sorted(w) {
			if problem := compare(join(at, name), w[name], g[name]); problem != "" {
				return problem
			}
		}
		return ""
	case []any:
		g, is := got.([]any)
		if got != nil && !is || len(g) != len(w) {
			return differs(at, want, got)
		}
		for i := range w {
			if problem := compare(fmt.Sprintf("%s[%d]", at, i), w[i], g[i]); problem != "" {
				return problem
			}
		}
		return ""
	}
	if equal(want, got) || got == nil && isZero(want) {
		return ""
	}
	return differs(at, want, got)
}

func compareMatcher(at string, want map[string]any, got any) string {
	text, isText := got.(string)
	if pattern, is := want[matchesKey].(string); is {
		if isText && regexp.MustCompile(pattern).MatchString(text) {
			return ""
		}
		return differs(at, want, got)
	}
	w := want[containsKey]
	if part, is := w.(string); is && isText && strings.Contains(text, part) {
		return ""
	}
	if list, is := got.([]any); is && slices.ContainsFunc(list, func(e any) bool { return compare("", w, e) == "" }) {
		return ""
	}
	return differs(at, want, got)
}

// equal compares two simple values; numbers by what they are.
func equal(want, got any) bool {
	a, isNumber := number(want)
	b, isToo := number(got)
	if isNumber && isToo {
		return a == b
	}
	return want == got
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

func isZero(v any) bool {
	n, isNumber := number(v)
	return v == nil || v == "" || v == false || isNumber && n == 0
}

func differs(at string, want, got any) string {
	return fmt.Sprintf("%s: got %s, want %s", at, show(got), show(want))
}

// maxShown bounds how much of a value a message has, in bytes.
const maxShown = 2000

// show is a value as a test file has it.
func show(v any) string {
	out := written(v)
	if len(out) > maxShown {
		out = strings.ToValidUTF8(out[:maxShown], "") + fmt.Sprintf("… (%d bytes)", len(out))
	}
	return out
}

func written(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		return strconv.Quote(v)
	case []any:
		all := make([]string, len(v))
		for i, e := range v {
			all[i] = written(e)
		}
		return "[" + strings.Join(all, ", ") + "]"
	case map[string]any:
		if isMatcher(v) {
			return strings.TrimPrefix(sorted(v)[0], "\x00") + "(" + written(matched(v)) + ")"
		}
		var all []string
		for _, name := range sorted(v) {
			all = append(all, name+" = "+written(v[name]))
		}
		return "{" + strings.Join(all, ", ") + "}"
	}
	return fmt.Sprint(v)
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
