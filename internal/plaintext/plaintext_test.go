package plaintext_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/plaintext"
)

func TestALineCannotDriveATerminalOrForgeAnother(t *testing.T) {
	for in, want := range map[string]string{
		"plain text, ünïcode":  "plain text, ünïcode",
		"a\tb":                 "a\tb",
		"red\x1b[31m":          `red\u001b[31m`,
		"one\ntwo\r":           `one\u000atwo\u000d`,
		"not UTF-8 \xff":       "not UTF-8 \uFFFD",
		"zero\u200bwidth":      `zero\u200bwidth`,
		"right-to-left\u202e!": `right-to-left\u202e!`,
		"":                     "",
	} {
		require.Equal(t, want, plaintext.Line(in, 100))
	}
}

func TestALineIsCutBetweenCharacters(t *testing.T) {
	require.Equal(t, "aé…", plaintext.Line("aéé", 4))
	require.Equal(t, "aé", plaintext.Line("aé", 3))
	require.Equal(t, "…", plaintext.Line("é", 1))
}
