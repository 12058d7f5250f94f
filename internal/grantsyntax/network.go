package grantsyntax

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// UnixEndpoint begins an endpoint that is a unix socket.
const UnixEndpoint = "unix:"

// name is a host's name; a dot at its end would be another spelling of it.
var name = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$`)

// token is a method of HTTP, in capitals.
var token = regexp.MustCompile(`^[A-Z][A-Z0-9_-]*$`)

// SplitAddress reads HOST:PORT and returns the host in one spelling: a name in small letters,
// or an IP address without a zone. The port is not read.
func SplitAddress(address string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(address)
	if err != nil {
		return "", "", errors.New("it is not HOST:PORT")
	}
	host, err = canonicalHost(host)
	return host, port, err
}

func canonicalHost(host string) (string, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return "", errors.New("an address has no zone here")
		}
		return ip.Unmap().String(), nil
	}
	host = strings.ToLower(host)
	if len(host) > 253 || !name.MatchString(host) || strings.Contains(host, "..") {
		return "", errors.New("its host is neither a name nor an IP address")
	}
	return host, nil
}

// Address refuses what is not HOST:PORT or HOST:*, where HOST is a name in small letters or an
// IP address.
func Address(address string) error {
	host, port, err := SplitAddress(address)
	if err == nil && net.JoinHostPort(host, port) == address && (port == Any || validPort(port)) {
		return nil
	}
	return fmt.Errorf(`%q has to be "HOST:PORT" or "HOST:*", where HOST is a name in small letters or an IP address`, address)
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && strconv.FormatUint(n, 10) == port
}

// Socket refuses what is not the path of a socket, with '*' for any text in an element of it.
func Socket(path string) error {
	if filepath.IsAbs(path) && filepath.Clean(path) == path && path != "/" && !strings.ContainsAny(path, "?[\\\x00") {
		return nil
	}
	return fmt.Errorf(`%q has to be an absolute path without ".." or "//", with '*' for any text between two slashes`, path)
}

// SplitEndpoint reads "http://HOST[:PORT]" or "https://HOST[:PORT]" and returns it in one
// spelling, with the port.
func SplitEndpoint(endpoint string) (host string, port uint16, canonical string, err error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Path != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Host == "" {
		return "", 0, "", errors.New("it is not SCHEME://HOST:PORT")
	}
	text := u.Port()
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", 0, "", errors.New("its scheme is neither http nor https")
	case text == "" && strings.HasSuffix(u.Host, ":"):
		return "", 0, "", errors.New("it has an empty port")
	case text == "":
		text = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if host, err = canonicalHost(u.Hostname()); err != nil {
		return "", 0, "", err
	}
	if !validPort(text) {
		return "", 0, "", errors.New("its port is none")
	}
	n, _ := strconv.ParseUint(text, 10, 16) // it is valid
	return host, uint16(n), u.Scheme + "://" + net.JoinHostPort(host, text), nil
}

// Endpoint refuses what requests of HTTP cannot be sent to.
func Endpoint(endpoint string) error {
	if path, ok := strings.CutPrefix(endpoint, UnixEndpoint); ok && Socket(path) == nil {
		return nil
	}
	if _, _, _, err := SplitEndpoint(endpoint); err == nil && strings.ToLower(endpoint) == endpoint {
		return nil
	}
	return fmt.Errorf(`%q has to be "unix:/PATH", "http://HOST:PORT" or "https://HOST:PORT", in small letters and without a path`, endpoint)
}

// Method refuses what is neither a method of HTTP, in capitals, nor all.
func Method(method string) error {
	if method == Any || token.MatchString(method) {
		return nil
	}
	return fmt.Errorf(`%q has to be a method such as GET, or "*" alone`, method)
}

// URLPath refuses what is not the path of a URL, with '*' for any text in an element of it, and
// a slash at its end for all below.
func URLPath(path string) error {
	clean := filepath.Clean(path)
	if strings.HasPrefix(path, "/") && path != "//" && (clean == path || clean+"/" == path) && !strings.ContainsAny(path, "?#%[\\\x00 ") {
		return nil
	}
	return fmt.Errorf(`%q has to begin with a slash, without "..", "//", '?' or '%%', with '*' for any text between two slashes`, path)
}
