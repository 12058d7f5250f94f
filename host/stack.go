package host

import (
	"regexp"
	"strings"

	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/sandbox"
)

// The bounds of a guest's stack, as people see it.
const (
	maxFrames     = 16
	maxFrameBytes = 128
)

// stackOf are the functions that a guest was in when it failed, the innermost first, by their
// names in its name section, or by their numbers, and "at file:line" where it tells that.
func stackOf(m *sandbox.Module, err error) []string {
	var frames []string
	for _, f := range m.Frames(err, maxFrames+1) {
		if len(frames) == maxFrames {
			return append(frames, "…")
		}
		name := frameName(f.Func)
		if f.Line != "" {
			name += " at " + plaintext.Line(f.Line, maxFrameBytes)
		}
		frames = append(frames, name)
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
