package managers

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxReason bounds a reason that people see, in bytes.
const maxReason = 1 << 10

// oneLine is an error as one line for people: its lines joined, what would move
// the cursor escaped, and cut.
func oneLine(err error) string { return printable(err.Error()) }

// printable makes one line of what a plugin said.
func printable(s string) string {
	s = strings.TrimSpace(strings.ReplaceAll(s, "\n", "; "))
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "") + "…"
	}
	if !strings.ContainsFunc(s, unicode.IsControl) && utf8.ValidString(s) {
		return s
	}
	quoted := strconv.QuoteToGraphic(s)
	return quoted[1 : len(quoted)-1]
}
