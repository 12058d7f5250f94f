package template_test

import (
	"testing"

	"github.com/stretchr/testify/require"
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
