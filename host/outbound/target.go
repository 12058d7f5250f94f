package outbound

import (
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/grantsyntax"
	"github.com/wasmnode/wasmnode/internal/plaintext"
)

// Target is where a request of HTTP goes. It has one meaning, however it is decoded.
type Target struct {
	// URL is what is sent.
	URL *url.URL
	// Endpoint is "http://HOST:PORT", "https://HOST:PORT" or "unix:PATH".
	Endpoint string
	// Host and Port are whom it goes to, where Socket is empty.
	Host   string
	Port   uint16
	Socket string
}

// ParseTarget reads the URL of a request and the socket that it goes to, if any.
//
// # Errors
//
// INVALID_ARGUMENT: not an absolute URL of HTTP, a user or a fragment in it, a path with an
// empty, "." or ".." element (escaped or not), or a socket's path that is not absolute and
// clean.
func ParseTarget(text, socket string) (*Target, error) {
	refused := func(format string, args ...any) error {
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("URL %q: ", plaintext.Line(text, 256))+fmt.Sprintf(format, args...))
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, refused("it cannot be read")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, refused("it has to begin with http:// or https://")
	case u.Opaque != "" || u.Host == "":
		return nil, refused("it has no host")
	case u.User != nil || u.Fragment != "" || strings.Contains(text, "#"):
		return nil, refused("it must have neither a user nor a fragment")
	case strings.ContainsFunc(u.RawQuery, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return nil, refused("its query has to be escaped")
	case u.Path == "":
		u.Path = "/"
	}
	if err := checkPath(u); err != nil {
		return nil, refused("%v", err)
	}
	t := &Target{URL: u, Socket: socket}
	if socket == "" {
		t.Host, t.Port, t.Endpoint, err = grantsyntax.SplitEndpoint(u.Scheme + "://" + u.Host)
		if err != nil {
			return nil, refused("%v", err)
		}
		return t, nil
	}
	if err := grantsyntax.Path(socket); err != nil {
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("the socket %v", err))
	}
	if u.Scheme != "http" {
		return nil, refused("a unix socket is spoken to by http://")
	}
	t.Endpoint = grantsyntax.UnixEndpoint + socket
	return t, nil
}

// checkPath refuses a path that means another one to who decodes it once more, or cleans it.
func checkPath(u *url.URL) error {
	escaped := u.EscapedPath()
	again, err := url.PathUnescape(u.Path)
	if err != nil {
		again = u.Path // a '%' that begins no escape
	}
	for _, spelling := range []string{escaped, u.Path, again} {
		if strings.ContainsAny(spelling, "\\\x00") {
			return fmt.Errorf("its path has a backslash or a zero")
		}
		elements := strings.Split(strings.TrimPrefix(spelling, "/"), "/")
		for i, e := range elements {
			name, _, _ := strings.Cut(e, ";") // some servers take off what follows first
			if name == "." || name == ".." || name == "" && i < len(elements)-1 {
				return fmt.Errorf(`its path has an empty, "." or ".." element`)
			}
		}
	}
	if !strings.HasPrefix(escaped, "/") {
		return fmt.Errorf("its path does not begin with a slash")
	}
	return nil
}

// Within reports whether one of the patterns stands for the target's path, in each of its
// spellings.
func (t *Target) Within(patterns []string) bool {
	for _, p := range patterns {
		if MatchPath(p, t.URL.Path) && MatchPath(p, t.URL.EscapedPath()) {
			return true
		}
	}
	return false
}

// MatchPath reports whether a pattern stands for a path, both of which begin with a slash. A
// '*' in the pattern is any text within one element, and a slash at its end all below.
func MatchPath(pattern, of string) bool {
	want, have := strings.Split(pattern, "/"), strings.Split(of, "/")
	if last := len(want) - 1; want[last] == "" {
		if len(have) < len(want) {
			return false
		}
		want, have = want[:last], have[:last]
	}
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if ok, err := path.Match(want[i], have[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// SplitAddress reads "HOST:PORT", where HOST is a name or an IP address.
//
// # Errors
//
// INVALID_ARGUMENT.
func SplitAddress(text string) (host string, port uint16, err error) {
	host, p, err := grantsyntax.SplitAddress(text)
	if err == nil {
		var n uint64
		if n, err = strconv.ParseUint(p, 10, 16); err == nil && n > 0 {
			return host, uint16(n), nil
		}
	}
	return "", 0, abi.NewError(abi.InvalidArgument, fmt.Sprintf("%q is not HOST:PORT", plaintext.Line(text, 256)))
}
