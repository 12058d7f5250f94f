package outbound_test

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/host/outbound"
)

func TestAURLHasOneMeaning(t *testing.T) {
	for text, want := range map[string]string{
		"http://a":                      "http://a:80 /",
		"https://A.b/x":                 "https://a.b:443 /x",
		"http://a:8080/x%20y?q=..//%2e": "http://a:8080 /x%20y",
		"http://[::1]/":                 "http://[::1]:80 /",
		"http://[::ffff:127.0.0.1]/":    "http://127.0.0.1:80 /",
		"http://a/images/r%2Fn/json":    "http://a:80 /images/r%2Fn/json",
		"http://a/x/":                   "http://a:80 /x/",
		"http://a/...":                  "http://a:80 /...",
		"http://a/100%25":               "http://a:80 /100%25",
	} {
		target, err := outbound.ParseTarget(text, "")
		require.NoError(t, err, text)
		require.Equal(t, want, target.Endpoint+" "+target.URL.EscapedPath(), text)
	}
	for _, text := range []string{
		"", "a", "/x", "ftp://a/", "http:a", "http:///x", "http://", "http://a:0/", "http://a:x/", "http://u@a/", "http://u:p@a/", "http://a/#f", "http://a/#",
		"http://a/..", "http://a/../x", "http://a/x/..", "http://a/./x", "http://a//x", "http://a/x//y", "http://a/x//",
		"http://a/%2e%2e/x", "http://a/%2E./x", "http://a/x/%2e%2e%2fy", "http://a/x%2f%2fy", "http://a/%252e%252e/x", "http://a/x%252f..%252fy",
		"http://a/..;/x", "http://a/.;a=b/x", `http://a/x\..\y`, "http://a/%5c..", "http://a/x%00", "http://a/x y HTTP/1.0", "http://a/?a b", "http://a/?\r\nX: y", "http://a/\n",
		"http://a../x", "http://*/", "http://[fe80::1%25eth0]/", "http://a:/", "http://ä/", "http://a%2eb/",
	} {
		_, err := outbound.ParseTarget(text, "")
		if text == "http://a/x y HTTP/1.0" { // the space is escaped when it is sent
			require.NoError(t, err, text)
			continue
		}
		require.Error(t, err, text)
	}
	target, err := outbound.ParseTarget("http://docker/x", "/run/x.sock")
	require.NoError(t, err)
	require.Equal(t, "unix:/run/x.sock", target.Endpoint)
	for _, socket := range []string{"x.sock", "/run/../x", "/run//x", "/run/*", "/run/x\x00"} {
		_, err := outbound.ParseTarget("http://docker/x", socket)
		require.Error(t, err, socket)
	}
	_, err = outbound.ParseTarget("https://docker/x", "/run/x.sock")
	require.Error(t, err)
}

func TestAPatternStandsForPaths(t *testing.T) {
	for _, c := range []struct {
		pattern string
		is, not []string
	}{
		{"/", []string{"/", "/x", "/x/y"}, nil},
		{"/x", []string{"/x"}, []string{"/", "/x/", "/x/y", "/xy"}},
		{"/x/", []string{"/x/", "/x/y", "/x/y/z"}, []string{"/x", "/", "/xy/z"}},
		{"/v*/containers/", []string{"/v1.43/containers/json", "/v/containers/a/start"}, []string{"/containers/json", "/v1/x/containers/json", "/v1/containers", "/v1/images/json"}},
		{"/containers/*/start", []string{"/containers/abc/start"}, []string{"/containers//start/", "/containers/a/b/start", "/containers/a/stop"}},
		{"/*", []string{"/x", "/"}, []string{"/x/y"}},
		{"/a*c*e", []string{"/abcde", "/ace"}, []string{"/ab/cde", "/abcd"}},
	} {
		for _, p := range c.is {
			require.True(t, outbound.MatchPath(c.pattern, p), "%s %s", c.pattern, p)
		}
		for _, p := range c.not {
			require.False(t, outbound.MatchPath(c.pattern, p), "%s %s", c.pattern, p)
		}
	}
}

// What is below a prefix is so for whoever reads the URL: as it stands, unescaped once or
// twice, and cleaned.
func FuzzTarget(f *testing.F) {
	for _, text := range []string{"http://a/v1/x", "http://a/v1/%2e%2e/x", "http://a/v1/..%2f", "http://a/v1/%252e%252e/", "http://a/v1/;/..;/x", "http://a/v1/%", "https://[::1]:1/v1/?x#y"} {
		f.Add(text, "/run/x.sock")
		f.Add(text, "")
	}
	f.Fuzz(func(t *testing.T, text, socket string) {
		target, err := outbound.ParseTarget(text, socket)
		if err != nil {
			require.False(t, strings.ContainsAny(err.Error(), "\n\r\x1b"), "%q", err)
			return
		}
		sent := target.URL.RequestURI()
		require.False(t, strings.ContainsAny(sent, " \r\n\x00"), "%q", sent)
		require.Equal(t, socket, target.Socket)
		if !target.Within([]string{"/v1/"}) {
			return
		}
		seen, _, _ := strings.Cut(sent, "?")
		for range 3 {
			require.True(t, strings.HasPrefix(path.Clean(seen)+"/", "/v1/"), "%q as %q", text, seen)
			require.True(t, strings.HasPrefix(path.Clean(strings.ReplaceAll(seen, `\`, "/"))+"/", "/v1/"), "%q as %q", text, seen)
			if seen, err = url.PathUnescape(seen); err != nil {
				return
			}
		}
	})
}
