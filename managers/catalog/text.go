package catalog

import (
	"strings"

	"github.com/wasmnode/wasmnode/internal/plaintext"
)

// MaxReason bounds a reason that people see, in bytes.
const MaxReason = 1 << 10

// OneLine is an error as one line for people: its lines joined, what would move
// the cursor escaped, and cut.
func OneLine(err error) string { return Printable(err.Error()) }

// Printable makes one line of a plugin's text.
func Printable(s string) string {
	return plaintext.Line(strings.TrimSpace(strings.ReplaceAll(s, "\n", "; ")), MaxReason)
}
