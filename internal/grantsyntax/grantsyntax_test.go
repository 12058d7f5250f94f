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
		{"mount", grantsyntax.Mount, []string{"r:/srv", "rw:/srv/a"}, []string{"", "/srv", "r:", "w:/srv", "rx:/srv", "r:srv", "rw:/srv/", "r:/srv/*"}},
		{"node", grantsyntax.Node, []string{"/dev/kvm", "/dev/dri", "/dev/nvidia*", "/dev/*"}, []string{"", "/dev", "/srv/x", "/dev/../etc", "/dev/dri/", "/dev/**", "/dev/a*b", "/dev/a\x00"}},
		{"command", grantsyntax.Command, []string{"*", "/*", "/bin/sh", "/usr/bin/*"}, []string{"", "/", "sh", "bin/*", "/bin/../sh", "/bin/s*", "/bin//*", "//*", "/bin/\x00", "**"}},
		{"address", grantsyntax.Address, []string{"10.0.0.7:5432", "db.internal:5432", "127.0.0.1:*", "[::1]:80", "a_b:1"},
			[]string{"", "db", ":80", "db:", "db:0", "db:65536", "db:080", "DB:80", "*:80", "*.a:80", "a..b:80", "db.:80", "[::ffff:1.2.3.4]:80", "[fe80::1%eth0]:80", "::1:80", "http://a:80", "a:80/x", "a b:80"}},
		{"socket", grantsyntax.Socket, []string{"/run/x.sock", "/srv/*/x.sock", "/srv/vm-*.sock"}, []string{"", "/", "x.sock", "/run/", "/run/../x", "/run//x", "/a?", "/[a]", "/a\x00"}},
		{"endpoint", grantsyntax.Endpoint, []string{"unix:/run/x.sock", "unix:/srv/*/x.sock", "http://a", "https://a:8443", "http://[::1]:80", "http://127.0.0.1"},
			[]string{"", "unix:", "unix:x", "unix:/", "a:80", "ftp://a", "http://", "http://a/", "http://a/x", "http://a?x", "http://u@a", "http://a:", "http://a:0", "http://a#x", "HTTP://a", "http://A", "http://*", "http://[fe80::1%25eth0]"}},
		{"method", grantsyntax.Method, []string{"*", "GET", "M-SEARCH"}, []string{"", "get", "GET,POST", "G*", "GET "}},
		{"URL path", grantsyntax.URLPath, []string{"/", "/v*/containers/", "/_ping", "/a*b/*"}, []string{"", "v1", "//", "/a//b", "/a/../b", "/./a", "/a?b", "/%2e", "/a b", "/[a]", "/a\\b", "/a#b"}},
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
