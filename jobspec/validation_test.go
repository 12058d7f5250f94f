package jobspec_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/jobspec"
)

func TestWarningsAreCounted(t *testing.T) {
	require.Empty(t, jobspec.WarningText(nil))
	require.Equal(t, "1 warning:\n\n* a", jobspec.WarningText([]string{"a"}))
	require.Equal(t, "2 warnings:\n\n* a\n* b", jobspec.WarningText([]string{"a", "b"}))
}
