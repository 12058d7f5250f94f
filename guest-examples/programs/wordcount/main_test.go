package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheMostFrequentWordsComeFirstAndTiesByAlphabet(t *testing.T) {
	name := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(name, []byte("the dog, the Cat.\n\nA well-known cat's the\n"), 0o600))
	var out bytes.Buffer
	require.NoError(t, run(name, 2, &out))
	require.JSONEq(t, `{"file":"`+name+`","lines":3,"words":8,"distinct":6,
		"top":[{"word":"the","count":3},{"word":"a","count":1}]}`, out.String())
}

func TestAMissingFileIsNamed(t *testing.T) {
	require.ErrorContains(t, run("/nowhere", 1, &bytes.Buffer{}), "/nowhere")
	require.ErrorContains(t, run("", 1, &bytes.Buffer{}), "WORDCOUNT_FILE")
}
