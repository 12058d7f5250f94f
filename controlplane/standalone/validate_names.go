package standalone

import (
	"strings"
	"unicode"

	nomad "github.com/hashicorp/nomad/api"
)

// printable refuses a name that does not show as what it is: one with control characters, or
// with those that turn the direction of text round.
func (v *validation) printable(what, name string) {
	if strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
		v.fault("%s: %q has control characters", what, name)
	}
}

func (v *validation) services(services []*nomad.Service) {
	for _, s := range services {
		v.printable("service: name", s.Name)
		for _, c := range s.Checks {
			v.printable("service: check: name", c.Name)
		}
	}
}
