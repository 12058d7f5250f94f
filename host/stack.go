package host

import (
	"regexp"
	"strings"

	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/sandbox/meter"
)

// The bounds of a guest's stack, as people see it.
const (
	maxFrames     = 16
	maxFrameBytes = 128
)

// stackMark is what the engine writes before the frames of a stack.
const stackMark = "wasm stack trace:"

// stackOf are the functions that a guest was in when it failed, the innermost first, by their
// names in its name section, or by their numbers. There are no lines: a guest runs rewritten,
// and what its debug information tells is of the code before that.
func stackOf(err error) []string {
	_, trace, found := strings.Cut(err.Error(), stackMark)
	if !found {
		return nil
	}
	var frames []string
	for line := range strings.Lines(trace) {
		line = strings.TrimSpace(line)
		switch {
		case line == "", strings.HasPrefix(line, meter.ImportModule+"."):
			continue // the last is the node's own: where the guest looks whether its call is over
		case len(frames) == maxFrames:
			return append(frames, "…")
		}
		frames = append(frames, frameName(line))
	}
	return frames
}

var frameTypes = regexp.MustCompile(`\([a-z0-9,]*\)( [a-z0-9]+| \([a-z0-9,]+\))?$`)

// frameName is a function without its types and the name of its module, which guests have none of.
func frameName(line string) string {
	name := strings.TrimPrefix(frameTypes.ReplaceAllString(line, ""), ".")
	return plaintext.Line(demangled(name), maxFrameBytes)
}

var mangledHash = regexp.MustCompile(`^h[0-9a-f]{16}$`)

// demangled makes the path of a function of Rust's, whose names are "_ZN", the length and text
// of each part, and "E". What is not of that form is left as it is.
func demangled(name string) string {
	rest, is := strings.CutPrefix(name, "_ZN")
	if !is {
		return name
	}
	var parts []string
	for rest != "E" {
		n, digits := 0, 0
		for digits < len(rest) && digits < 4 && rest[digits] >= '0' && rest[digits] <= '9' {
			n = 10*n + int(rest[digits]-'0')
			digits++
		}
		if n == 0 || len(rest) < digits+n {
			return name
		}
		if part := rest[digits : digits+n]; !mangledHash.MatchString(part) {
			parts = append(parts, rustEscapes.Replace(part))
		}
		rest = rest[digits+n:]
	}
	return strings.Join(parts, "::")
}

var rustEscapes = strings.NewReplacer("$LT$", "<", "$GT$", ">", "$RF$", "&", "$BP$", "*", "$LP$", "(", "$RP$", ")", "$C$", ",", "$u20$", " ", "$u7b$", "{", "$u7d$", "}", "..", "::")
