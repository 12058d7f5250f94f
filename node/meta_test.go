package node

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheDynamicMetadataGoesOverTheStatic(t *testing.T) {
	static := map[string]string{"a": "1", "b": "2", "c": "3"}
	merged := mergeMeta(static, map[string]*string{"b": new("two"), "c": nil, "d": new("")})
	require.Equal(t, map[string]string{"a": "1", "b": "two", "d": ""}, merged)
	require.Equal(t, map[string]string{"a": "1", "b": "2", "c": "3"}, static)
}

func TestTheBoundsOfMetadata(t *testing.T) {
	for name, value := range map[string]string{"a.b-c_D/9": "any\x00thing", strings.Repeat("n", maxMetaName): strings.Repeat("v", maxMetaValue)} {
		require.NoError(t, checkMeta(name, &value), name)
		require.NoError(t, checkMeta(name, nil), name)
	}
	for _, name := range []string{"", "a b", "a\n", "ü", "${a}", `a"b`, strings.Repeat("n", maxMetaName+1)} {
		require.Error(t, checkMeta(name, nil), strconv.Quote(name))
	}
	require.Error(t, checkMeta("a", new(strings.Repeat("v", maxMetaValue+1))))
}
