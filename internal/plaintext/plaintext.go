// Package plaintext makes text that plugins, jobs and files bring along safe to show to
// people and to write to a log. Start reading at [Line].
package plaintext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line makes a text safe to show: at most limit bytes of it, valid UTF-8, and control
// characters escaped, so that it cannot drive a terminal or forge a line.
func Line(s string, limit int) string {
	cut := len(s) > limit
	s = Cut(s, limit)
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range strings.ToValidUTF8(s, string(utf8.RuneError)) {
		if r == '\t' || unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	if cut {
		b.WriteString("…")
	}
	return b.String()
}

// Cut returns the beginning of a text that is longer than limit bytes, in whole characters.
func Cut[T string | []byte](s T, limit int) T {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
