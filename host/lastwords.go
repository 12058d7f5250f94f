package host

import (
	"bytes"
	"strings"

	"github.com/wasmnode/wasmnode/internal/plaintext"
)

// The bounds of what is kept of what a guest says in a call, for who asks why it failed.
const (
	wordBytes  = 256 // of a line
	wordsAfter = 24  // lines of a crash: its text and the innermost frames
	wordsUntil = 12  // lines before it
)

// lastWords keeps the last lines that a guest wrote in a call, also those that are too many to be
// logged, and from the text of a panic on the first ones: what runtimes print after it can be
// hundreds of lines. One call at a time uses it, so that nobody's lines are another task's.
type lastWords struct {
	until [wordsUntil][]byte // a ring
	lines int                // that were put into it
	after [][]byte           // from the text of the panic on
}

// forget begins another call.
func (w *lastWords) forget() { w.lines, w.after = 0, nil }

func (w *lastWords) add(line []byte) {
	line = line[:min(len(line), wordBytes+1)] // one byte more shows that it is cut
	if len(w.after) > 0 || isPanic(line) {
		if len(w.after) < wordsAfter {
			w.after = append(w.after, bytes.Clone(line))
		}
		return
	}
	place := &w.until[w.lines%wordsUntil]
	*place = append((*place)[:0], line...)
	w.lines++
}

// panicked reports whether what is written now follows on the text of a panic.
func (w *lastWords) panicked() bool { return len(w.after) > 0 }

// said are the lines, oldest first, safe to show once shown has masked what is secret in one that may be
// cut.
func (w *lastWords) said(shown func(line string, cut bool) string) []string {
	var out []string
	for i := max(0, w.lines-wordsUntil); i < w.lines; i++ {
		out = append(out, wordsOf(w.until[i%wordsUntil], shown))
	}
	for _, line := range w.after {
		out = append(out, wordsOf(line, shown))
	}
	return out
}

func wordsOf(line []byte, shown func(string, bool) string) string {
	return plaintext.Line(shown(string(line), len(line) > wordBytes), wordBytes)
}

// panicText is the text of the panic that was written, on one line; empty: there was none.
func (w *lastWords) panicText(shown func(line string, cut bool) string) string {
	if len(w.after) == 0 {
		return ""
	}
	text := shown(string(w.after[0]), len(w.after[0]) > wordBytes)
	if strings.HasSuffix(text, ":") && len(w.after) > 1 { // Rust's text follows where it was
		text += " " + shown(string(w.after[1]), len(w.after[1]) > wordBytes)
	}
	return plaintext.Line(text, 2*wordBytes)
}

// isPanic reports whether a line begins what a language's runtime writes of a panic: those of
// Go, Rust, Zig and AssemblyScript, and C's assert.
func isPanic(line []byte) bool {
	for _, prefix := range []string{"panic: ", "fatal error: ", "panicked at ", "abort: ", "Assertion failed: "} {
		if bytes.HasPrefix(line, []byte(prefix)) {
			return true
		}
	}
	return bytes.HasPrefix(line, []byte("thread ")) && (bytes.Contains(line, []byte(" panicked at ")) || bytes.Contains(line, []byte(" panic: ")))
}
