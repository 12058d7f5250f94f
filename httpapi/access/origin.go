package access

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// crossOrigin is the standard library's rule for requests that change something. Here it
// is asked about all: a websocket begins with a GET, and what a page can see of an answer
// to a GET, such as whether it was a good one, is nobody's business either.
var crossOrigin http.CrossOriginProtection

// foreign reports whether a web page of another origin, or one that does not tell its
// own, had a browser send the request. Where the page shares no more than the site with
// the node, as on another port of this machine, it is foreign.
func foreign(r *http.Request) bool {
	asked := *r
	asked.Method = http.MethodPost
	if crossOrigin.Check(&asked) != nil {
		return true
	}
	// That rule looks at one of the two, and at the first where there are several.
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return true
		}
	}
	for _, origin := range r.Header.Values("Origin") {
		if !isOrigin(origin, r.Host) {
			return true
		}
	}
	return false
}

// isOrigin reports whether an origin is the host that was asked. The scheme is not
// compared: a proxy may have taken TLS off.
func isOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && strings.EqualFold(u.Host, host)
}

// fromBrowser reports whether a browser sent a request. All browsers name themselves so,
// and pages cannot have them say something else; the other headers are those that only
// browsers send. A browser leaves out where a picture is asked for from, when the node is
// neither on loopback nor has TLS.
func fromBrowser(r *http.Request) bool {
	if strings.HasPrefix(r.UserAgent(), "Mozilla/") {
		return true
	}
	for name := range r.Header {
		switch name {
		case "Origin", "Referer", "Accept-Language", "Cookie":
			return true
		}
		if strings.HasPrefix(name, "Sec-") && !strings.HasPrefix(name, "Sec-Websocket-") {
			return true
		}
	}
	return false
}

// knows reports whether the node may be asked by a name, which may have a port. A page
// whose own name is made to lead here is kept out by it: to the browser both would be
// one origin. Addresses and localhost cannot be made to lead elsewhere.
func (p *Policy) knows(host string) bool {
	name, ok := hostname(host)
	if !ok {
		return false
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	name = strings.ToLower(name)
	return isName(name) && (name == "localhost" || strings.HasSuffix(name, ".localhost") || slices.ContainsFunc(p.Hosts, func(h string) bool {
		return strings.EqualFold(h, name)
	}))
}

// isName reports whether a text can be the name of a host: letters, digits, dots, hyphens
// and underscores.
func isName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '.' && r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// hostname is a host without its port and, where it is an address of IPv6, without its
// brackets. ok: it is written as it has to be.
func hostname(host string) (name string, ok bool) {
	name = host
	if strings.Contains(host, ":") {
		bracketed := strings.HasPrefix(host, "[")
		if bracketed && strings.HasSuffix(host, "]") {
			name = host[1 : len(host)-1]
		} else {
			var port string
			var err error
			if name, port, err = net.SplitHostPort(host); err != nil {
				return "", false
			}
			if _, err := strconv.ParseUint(port, 10, 16); err != nil {
				return "", false
			}
		}
		if bracketed != strings.Contains(name, ":") {
			return "", false
		}
	}
	return name, name != ""
}

// unknownHost says what to do about a name that is not the node's.
func unknownHost(host string) string {
	name, ok := hostname(host)
	if !ok || !isName(name) {
		return "the request's Host is not a name that this node knows"
	}
	return "this node does not go by the name " + `"` + name + `"` + ": ask it by its address, or have its operator add the name to http_hosts"
}
