package access

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/wasmnode/wasmnode/internal/acl"
)

// FuzzCheck holds the decision against what must never be: that a page of another origin,
// a name that is not the node's, or a caller without the right token is served. What it
// expects is put together in another way than the decision itself.
func FuzzCheck(f *testing.F) {
	for _, host := range []string{"127.0.0.1:4646", "[::1]:4646", "localhost", "a.localhost:1", "node.example", "evil.test:4646", "", "::1"} {
		for _, origin := range []string{"", "null", "http://127.0.0.1:4646", "http://evil.test:4646", "https://node.example", "http://[::1]:4646"} {
			f.Add(host, origin, "same-origin", "GET", "manager", "", uint8(0))
			f.Add(host, origin, "cross-site", "POST", "reader", "Mozilla/5.0", uint8(7))
		}
	}
	f.Add("127.0.0.1", "", "", "GET", "", "curl/8", uint8(6))
	f.Add("127.0.0.1", "", "none", "PUT", "none", "Go-http-client/1.1", uint8(26))
	p := &Policy{Hosts: []string{"node.example"}, Token: tokens}
	var std http.CrossOriginProtection
	f.Fuzz(func(t *testing.T, host, origin, site, method, secret, agent string, how uint8) {
		r := &http.Request{Method: method, Host: host, URL: &url.URL{Path: "/"}, Header: http.Header{}}
		set := func(name, value string) {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		set("Origin", origin)
		set("Sec-Fetch-Site", site)
		set("User-Agent", agent)
		if how&16 == 0 {
			set(TokenHeader, secret)
		} else {
			set("Authorization", "Bearer "+secret)
		}
		if how&8 != 0 { // as a websocket begins
			set("Connection", "Upgrade")
			set("Upgrade", "websocket")
			set("Sec-Websocket-Key", "x")
		}
		route := Route{Needs: acl.Level(how % 3), Changes: how&4 != 0}
		token, err := p.Check(r, route)
		if err != nil {
			if err.Error() == "" || strings.Contains(err.Error(), "\n") {
				t.Fatalf("not one line: %q", err)
			}
			if wanted(r, route, secret) {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		switch {
		case !goodHost(host):
			t.Fatalf("served by the name %q", host)
		case site != "" && site != "same-origin" && site != "none":
			t.Fatalf("served to %q", site)
		case origin != "" && !strings.EqualFold(origin, "http://"+host) && !strings.EqualFold(origin, "https://"+host):
			t.Fatalf("%q served to %q", host, origin)
		case route.Changes && (origin != "" || site != "" || strings.HasPrefix(agent, "Mozilla/")):
			t.Fatal("a browser changed something with GET")
		case route.Needs == acl.Manager && strings.TrimSpace(secret) != "manager":
			t.Fatalf("managed with %q", secret)
		case route.Needs == acl.Reader && strings.TrimSpace(secret) != "manager" && strings.TrimSpace(secret) != "reader":
			t.Fatalf("read with %q", secret)
		case route.Needs != acl.Anyone && token.Token == nil:
			t.Fatal("no token")
		}
		r.Method = http.MethodPost
		if std.Check(r) != nil {
			t.Fatal("the standard library refuses it")
		}
	})
}

// wanted reports whether a request is one of those that people send every day.
func wanted(r *http.Request, route Route, secret string) bool {
	return (r.Host == "127.0.0.1:4646" || r.Host == "localhost" || r.Host == "node.example") && len(r.Header["Origin"]) == 0 &&
		len(r.Header["Sec-Fetch-Site"]) == 0 && r.UserAgent() == "Go-http-client/1.1" && (secret == "manager" || route.Needs == acl.Anyone)
}

// goodHost reports whether what stands before the port is an address, localhost, a name
// below it or the node's.
func goodHost(host string) bool {
	name := strings.ToLower(host)
	if i := strings.LastIndexByte(name, ':'); i >= 0 && !strings.HasSuffix(name, "]") {
		name = name[:i]
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		ip, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return err == nil && ip.Is6()
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.Is4()
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	return last == "localhost" || name == "node.example"
}
