package standalone

import (
	"regexp"
	"strings"
	"unicode"

	nomad "github.com/hashicorp/nomad/api"
)

// printable refuses a name that does not show as what it is.
func (v *validation) printable(what, name string) {
	if !printable(name) {
		v.fault("%s: %q has control characters", what, name)
	}
}

// printable reports whether a name has no control characters, and none of those that turn the
// direction of text round.
func printable(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) })
}

// identifier is what names an identity or an action.
var identifier = regexp.MustCompile(`^[a-zA-Z0-9-_]{1,128}$`)

func (v *validation) actions(actions []*nomad.Action) {
	names := map[string]bool{}
	for i, a := range actions {
		switch {
		case a.Name == "":
			v.fault("action %d: it has no name", i+1)
		case !identifier.MatchString(a.Name):
			v.fault("action: invalid name '%s'", a.Name)
		case names[a.Name]:
			v.fault("action %q: there are two of that name", a.Name)
		case a.Command == "":
			v.fault("action %q: command: it is missing", a.Name)
		}
		names[a.Name] = true
		if strings.Contains(a.Command+strings.Join(a.Args, ""), "${") {
			v.warn("action %q: references such as ${...} reach the command as they are written: a shell has the task's environment", a.Name)
		}
	}
}
