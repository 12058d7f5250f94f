package catalog

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxReason bounds a reason that people see, in bytes.
const MaxReason = 1 << 10

// OneLine is an error as one line for people: its lines joined, what would move
// the cursor escaped, and cut.
func OneLine(err error) string { return Printable(err.Error()) }

// Printable makes one line of what a plugin said.
func Printable(s string) string {
	s = strings.TrimSpace(strings.ReplaceAll(s, "\n", "; "))
	if len(s) > MaxReason {
		s = strings.ToValidUTF8(s[:MaxReason], "") + "…"
	}
	if !strings.ContainsFunc(s, unicode.IsControl) && utf8.ValidString(s) {
		return s
	}
	quoted := strconv.QuoteToGraphic(s)
	return quoted[1 : len(quoted)-1]
}
