package catalog

import (
	"cmp"
	"fmt"
	"reflect"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/pluginsign"
)

// Settings are what an operator decided about plugins. They are values that are not changed.
//
// A plugin says itself what its name is. So that this gives it nothing that was meant for
// another, a name that the operator decided about belongs to the files that are meant and to
// no other, whether these are there or not. Any other name belongs to one of the files that
// use it: the file called NAME.wasm, else the first by its own name.
type Settings struct {
	// Plugins is, by name, what was decided about the plugin of that name.
	Plugins map[string]PluginSettings
	// Others is what plugins of all other names are granted.
	Others host.Grants
	// RequirePinned refuses contents whose digest is not in Plugins.
	RequirePinned bool
	// RequireLock refuses everything while the directory has no lock file.
	RequireLock bool
	// TrustedKeys are those with one of which every content has to be signed; none: contents
	// need no signature.
	TrustedKeys pluginsign.Keys
	// Refuse returns why no plugin of a type may go by a name, in one line; "": one may. It
	// depends on nothing else. Nil: any may.
	Refuse func(kind host.Kind, name string) string
}

// PluginSettings are what an operator decided about the plugin of one name.
type PluginSettings struct {
	// File is the name of the file that is meant; empty: NAME.wasm.
	File string
	// SHA256 is the digest of the only content that may go by the name, in hexadecimal,
	// whatever its file is called; empty: any content of the file.
	SHA256 string
	// Config is the plugin's own configuration.
	Config map[string]any
	// Grants is what it may do.
	Grants host.Grants
}

// of returns what was decided about a name.
func (s Settings) of(name string) given {
	if p, ok := s.Plugins[name]; ok {
		return given{p.Grants, p.Config}
	}
	return given{s.Others, nil}
}

// given is what a plugin gets of its operator.
type given struct {
	grants host.Grants
	config map[string]any
}

func (g given) equal(o given) bool { return reflect.DeepEqual(g, o) }

// refused returns why no plugin may have a name; "": one may.
func (s Settings) refused(c claim) string {
	if s.Refuse == nil {
		return ""
	}
	return s.Refuse(c.kind, c.name)
}

// refusal returns why a file of that content must not have a name, as a [*notMeantError];
// nil: it may.
func (s Settings) refusal(c claim, file, digest string) error {
	if why := s.refused(c); why != "" {
		return &notMeantError{why}
	}
	name := c.name
	p, decided := s.Plugins[name]
	meant := cmp.Or(p.File, name+pluginSuffix)
	pin := fmt.Sprintf("plugin %q { sha256 = %q }", name, digest)
	switch {
	case p.SHA256 == digest:
		return nil
	case p.SHA256 != "":
		return &notMeantError{fmt.Sprintf("its SHA-256 is %s, the configuration says %s: put the right file back, or change it to %s", digest, p.SHA256, pin)}
	case decided && file != meant:
		return &notMeantError{fmt.Sprintf("it calls itself %q, a name that the configuration gives to %s; if this file is meant, write plugin %q { file = %q }", name, meant, name, file)}
	case s.RequirePinned:
		return &notMeantError{"require_pinned is set and the plugin is not pinned: add " + pin}
	}
	return nil
}

// before reports whether, of two files that may go by a name, a has it.
func (s Settings) before(name, a, b string) bool {
	meant := cmp.Or(s.Plugins[name].File, name+pluginSuffix)
	if (a == meant) != (b == meant) {
		return a == meant
	}
	return a < b
}

// meant returns the one file that may go by a name; "": any may, or any of one content.
func (s Settings) meant(name string) string {
	p, decided := s.Plugins[name]
	if !decided || p.SHA256 != "" {
		return ""
	}
	return cmp.Or(p.File, name+pluginSuffix)
}

// means reports whether a file is the one that is meant by a name that was decided about.
func (s Settings) means(file string) bool {
	for name, p := range s.Plugins {
		if cmp.Or(p.File, name+pluginSuffix) == file {
			return true
		}
	}
	return false
}

// notMeantError: by the operator's decisions a file must not go by the name that it gives
// itself.
type notMeantError struct{ text string }

func (e *notMeantError) Error() string { return e.text }
