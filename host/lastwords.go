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

// said are the lines, oldest first, safe to show.
func (w *lastWords) said() []string {
	var out []string
	for i := max(0, w.lines-wordsUntil); i < w.lines; i++ {
		out = append(out, plaintext.Line(string(w.until[i%wordsUntil]), wordBytes))
	}
	for _, line := range w.after {
		out = append(out, plaintext.Line(string(line), wordBytes))
	}
	return out
}

// panicText is the text of the panic that was written, on one line; empty: there was none.
func (w *lastWords) panicText() string {
	if len(w.after) == 0 {
		return ""
	}
	text := string(w.after[0])
	if strings.HasSuffix(text, ":") && len(w.after) > 1 { // Rust's text follows where it was
		text += " " + string(w.after[1])
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
