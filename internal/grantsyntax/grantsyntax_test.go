package grantsyntax_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/grantsyntax"
)

func TestAPermissionIsOneClearThing(t *testing.T) {
	for _, c := range []struct {
		name       string
		check      func(string) error
		clear, not []string
	}{
		{"path", grantsyntax.Path, []string{"/", "/srv", "/srv/a b"}, []string{"", "srv", "/srv/", "/srv//x", "/srv/../x", "/srv/*", "/a?", "/[a]", "/a\x00"}},
		{"node", grantsyntax.Node, []string{"/dev/kvm", "/dev/dri", "/dev/nvidia*", "/dev/*"}, []string{"", "/dev", "/srv/x", "/dev/../etc", "/dev/dri/", "/dev/**", "/dev/a*b", "/dev/a\x00"}},
		{"command", grantsyntax.Command, []string{"*", "/*", "/bin/sh", "/usr/bin/*"}, []string{"", "/", "sh", "bin/*", "/bin/../sh", "/bin/s*", "/bin//*", "//*", "/bin/\x00", "**"}},
		{"user", grantsyntax.User, []string{"*", "nobody", "web:www", "1000:1000"}, []string{"", "a b", "web*", "[a]", "a\x00"}},
	} {
		for _, text := range c.clear {
			require.NoError(t, c.check(text), "%s %q", c.name, text)
		}
		for _, text := range c.not {
			require.ErrorContains(t, c.check(text), "has to be", "%s %q", c.name, text)
		}
	}
}
