package template_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	texttemplate "text/template"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/template"
)

// No function makes a map that is in itself: printing one would end the agent.
func TestNoMapIsMadeThatIsInItself(t *testing.T) {
	in := input(t, nil)
	const m = `{{ $s := scratch }}{{ $s.MapSet "m" "x" 1 }}{{ $m := $s.Get "m" }}`
	for data, want := range map[string]string{
		m + `{{ $s.MapSet "f" "a" $m }}{{ $s.MapSet "f" "a/b" $m }}{{ explodeMap ($s.Get "f") | toJSON }}{{ $m | toJSON }}`: `{"a":{"b":{"x":1},"x":1}}{"x":1}`,
		m + `{{ explodeMap (sprig_dict "a" (sprig_dict "b" $m) "a/b/c" $m) | toJSON }}{{ $m | toJSON }}`:                    `{"a":{"b":{"c":{"x":1},"x":1}}}{"x":1}`,
		m + `{{ $_ := sprig_merge $m (sprig_dict "a" (sprig_chunk 1 (sprig_list $m))) }}{{ $m | toJSON }}`:                  `{"a":[[{"x":1}]],"x":1}`,
	} {
		out, err := renderAny(t, in, data)
		require.NoError(t, err, data)
		require.Equal(t, want, out, data)
	}
}

// What is small and prints without end is not printed: 40 references to a text of 10 MB.
func TestNothingIsPrintedThatNobodyLookedAt(t *testing.T) {
	in := input(t, nil)
	in.Services = services()
	const m = `{{ scratch.MapSet "m" "0" "" }}{{ $m := scratch.Get "m" }}{{ $l := sprig_list $m }}` +
		`{{ $t := sprig_repeat 10000000 "a" }}{{ range loop 40 }}{{ scratch.MapSet "m" (print .) $t }}{{ end }}`
	for call, want := range map[string]string{
		`loop $m`:             "map[string]interface {} is not a whole number",
		`add 1 $m`:            "map[string]interface {} and 1 are not both numbers",
		`modulo 1 $m`:         "map[string]interface {} and 1 are not both whole numbers",
		`maximum $m 1`:        "1 and map[string]interface {} are not both numbers",
		`nomadService $m`:     "map[string]interface {} is not the name of a service",
		`nomadServices $t $t`: "at most 1024 bytes",
		`eq $m $m`:            "non-comparable type map[string]interface {}",
		`ne $m $m`:            "non-comparable type map[string]interface {}",
		`eq $m $l`:            "non-comparable types map[string]interface {} and []interface {}",
		`le $m $m`:            "invalid type for comparison",
		`join "," $l`:         "makes more than",
		`print $m`:            "makes more than",
		`println $m`:          "makes more than",
		`printf "%v" $m`:      "makes more than",
		`html $m`:             "makes more than",
		`js $m`:               "makes more than",
		`urlquery $m`:         "makes more than",
		`index $m $m`:         "value has type map[string]interface {}; should be string",
		`slice $m 1`:          "can't slice item of type map[string]interface {}",
	} {
		began := allocated()
		_, err := renderAny(t, in, m+"{{ $_ := "+call+" }}")
		require.ErrorContains(t, err, want, call)
		require.Less(t, allocated()-began, uint64(100<<20), call)
	}
}

// allocated is how many bytes were so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// eq and ne are text/template's, but for the texts of their errors.
func TestValuesAreEqualAsInTextTemplate(t *testing.T) {
	in := input(t, nil)
	values := []string{
		"1", "2", "-1", "1.0", "2.5", `"a"`, `"1"`, `""`, "true", "false", "nil", "1i", "2i", `(parseUint "1")`, `(parseUint "")`, `(parseInt "1")`,
		`(parseJSON "{\"a\":1}")`, `(parseJSON "[1]")`, `(parseJSON "null")`, `(parseJSON "1")`, `(split "," "")`, `(index (parseJSON "{}") "a")`, `(scratch)`, `(loop 0)`,
	}
	theirs := texttemplate.FuncMap{
		"parseUint": func(s string) uint64 { return uint64(len(s)) }, "parseInt": func(s string) int64 { return int64(len(s)) },
		"parseJSON": func(s string) (v any) { require.NoError(t, json.Unmarshal([]byte(s), &v)); return v },
		"split":     func(_, _ string) []string { return []string{} }, "loop": func(int) []int64 { return nil }, "scratch": func() *int { return new(int) },
	}
	for _, a := range values {
		for _, b := range values {
			for _, call := range []string{"eq " + a + " " + b, "ne " + a + " " + b, "eq " + a + ` "x" ` + b, "eq " + a} {
				var there strings.Builder
				failure := texttemplate.Must(texttemplate.New("").Funcs(theirs).Parse("{{ "+call+" }}")).Execute(&there, nil)
				out, err := renderAny(t, in, "{{ "+call+" }}")
				require.Equal(t, failure != nil, err != nil, "%s: %v, there %v", call, err, failure)
				require.True(t, err != nil || there.String() == out, "%s: %s, there %s", call, out, there.String())
			}
		}
	}
}

// Comparing many long texts ends with the rendering's time.
func TestComparingEndsWithTheTime(t *testing.T) {
	in := input(t, nil)
	const m = `{{ $a := print (sprig_repeat 2500000 "a") "x" }}{{ $b := print (sprig_repeat 2500000 "a") "y" }}` +
		`{{ range loop 20000 }}{{ scratch.MapSet "m" (print .) $a }}{{ end }}{{ $m := scratch.MapValues "m" }}{{ scratch.MapSet "i" "b" $b }}{{ $i := scratch.MapValues "i" }}`
	for _, call := range []string{`in $m $b`, `containsAny $i $m`, `eq $a` + strings.Repeat(" $b", 20000)} {
		tmpl, err := template.New(inline(m + "{{ " + call + " }}"))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		_, err = tmpl.Render(ctx, in)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, "%.80s", call)
	}
}

// What is written in lines is bounded before it is: how far it is indented, and the keys in the
// header of each table, take more than the value.
func TestNestedValuesAreBoundedBeforeTheyAreWritten(t *testing.T) {
	in := input(t, nil)
	nested := func(what string, depth int) string {
		return fmt.Sprintf(`{{ $k := "k" }}{{ $v := %s }}{{ range loop %d }}{{ $v = sprig_dict $k $v }}{{ end }}`, what, depth)
	}
	yaml := "{{ $v := parseYAML `" + strings.Repeat("{a: ", 9000) + "1" + strings.Repeat("}", 9000) + "` }}"
	for data, within := range map[string]bool{
		yaml + `{{ toYAML $v | len }}`: false,
		nested(`sprig_dict "t" (sprig_repeat 400000 "a\n")`, 10) + `{{ toYAML $v | len }}`:                                   true,
		nested(`sprig_dict "t" (sprig_repeat 400000 "a\n")`, 200) + `{{ toYAML $v | len }}`:                                  false,
		nested(`sprig_dict "t" (sprig_repeat 400000 "a ")`, 10) + `{{ toYAML $v | len }}`:                                    true,
		nested(`sprig_dict "t" (sprig_repeat 400000 "a ")`, 200) + `{{ toYAML $v | len }}`:                                   false,
		nested(`sprig_dict "t" 1`, 100) + `{{ toTOML $v | len }}`:                                                            true,
		strings.Replace(nested(`sprig_dict "t" 1`, 300), `"k"`, `sprig_repeat 10000 "k"`, 1) + `{{ toTOML $v | len }}`:       false,
		strings.Replace(nested(`sprig_dict "t" 1`, 300), `"k"`, `sprig_repeat 10000 "k"`, 1) + `{{ toJSONPretty $v | len }}`: true,
	} {
		began := allocated()
		_, err := renderAny(t, in, data)
		if within {
			require.NoError(t, err, "%.200s", data)
			continue
		}
		require.ErrorContains(t, err, "makes more than", "%.200s", data)
		require.Less(t, allocated()-began, uint64(200<<20), "%.200s", data)
	}
}

// A template ends with its time also where it has no loop.
func TestATemplateWithoutALoopEndsWithTheTime(t *testing.T) {
	in := input(t, nil)
	const slow = `(regexMatch "(x+x+)+y|(a?a?a?a?a?a?a?a?a?a?){4}b" $t)`
	for _, data := range []string{
		strings.Repeat(`{{ $_ := `+slow+` }}`, 100),
		`{{ if true }}` + strings.Repeat(`{{ $_ := sha256Hex $long }}`, 10000) + `{{ end }}`,
		`{{ or ` + strings.Repeat(slow+" ", 100) + ` }}`,
		`{{ $_ := print ` + strings.Repeat("(sha256Hex $long) (md5sum $long) (hmacSHA256Hex $long $long) ", 3000) + ` }}`,
	} {
		tmpl, err := template.New(inline(`{{ $t := sprig_repeat 100000 "a" }}{{ $long := sprig_repeat 1000000 "a" }}` + data))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		_, err = tmpl.Render(ctx, in) // all of it takes many seconds, and has no error
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, "%.80s", data)
	}
}

// An expression about the machine's addresses is small, and so is what is made of it: text/template's
// own functions, which make gigabytes of a few bytes, and what multiplies in a chain are refused.
func TestAnExpressionAboutAddressesMakesLittle(t *testing.T) {
	in := input(t, nil)
	const loopback = "(GetAllInterfaces | include `rfc` `1122|1122|1122|1122`)"
	for query, want := range map[string]string{
		"printf `%99999999d` 1 | printf `%99999999s` | len":                    `function "printf" not defined`,
		"print (html (js `<`))":                                                `function "print" not defined`,
		"GetAllInterfaces | println":                                           `function "println" not defined`,
		"template `sockaddr`":                                                  "one expression, without statements",
		loopback + strings.Repeat("| include `rfc` `1122|1122|1122|1122`", 15): "are more than 16384",
		strings.Repeat("join `name` (", 8) + "join `name` `" + strings.Repeat("a", 300) + "` " + loopback + strings.Repeat(") "+loopback, 8): "are more than 65536 bytes",
	} {
		began := allocated()
		_, err := renderAny(t, in, fmt.Sprintf("{{ sockaddr %q }}", query))
		require.ErrorContains(t, err, want, query)
		require.Less(t, allocated()-began, uint64(100<<20), query)
	}
}
