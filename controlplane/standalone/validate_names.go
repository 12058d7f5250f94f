package standalone

import (
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

func (v *validation) services(services []*nomad.Service) {
	for _, s := range services {
		v.printable("service: name", s.Name)
		for _, c := range s.Checks {
			v.printable("service: check: name", c.Name)
		}
	}
}
