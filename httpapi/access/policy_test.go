package access

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/acl"
	"github.com/wasmnode/wasmnode/structs"
)

// ask makes a request for a host; its headers are pairs of a name and a value.
func ask(method, host string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, "/", nil)
	r.Host = host
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// reason is why a policy refuses a request; empty: it does not.
func reason(t *testing.T, p *Policy, r *http.Request, route Route) string {
	t.Helper()
	_, err := p.Check(r, route)
	if err == nil {
		return ""
	}
	var refusal *Refusal
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, http.StatusForbidden, refusal.Status)
	require.NotContains(t, refusal.Text, "\n")
	return refusal.Reason
}

func TestHostsThatANodeGoesBy(t *testing.T) {
	p := &Policy{Hosts: []string{"node7.example"}}
	for host, served := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:4646": true, "192.0.2.7:80": true, "[::1]:4646": true, "[::1]": true, "[fe80::1%eth0]:1": true,
		"localhost": true, "localhost:4646": true, "LocalHost:1": true, "wasmnode.localhost:4646": true,
		"az-AZ_09.localhost": true, "a/b.localhost": false, "a@b.localhost": false, "a[b.localhost": false, "a`b.localhost": false, "a{b.localhost": false,
		"node7.example": true, "node7.example:4646": true, "NODE7.example:1": true,

		"": false, ":4646": false, "evil.test": false, "evil.test:4646": false, "127.0.0.1.evil.test": false, "localhost.evil.test": false,
		"notlocalhost": false, "node7.example.evil.test": false, "xnode7.example": false, "node7.example.": false,
		"127.1": false, "2130706433": false, "0x7f.0.0.1": false, "127.0.0.1:": false, "127.0.0.1:x": false, "127.0.0.1:99999": false,
		"::1": false, "[127.0.0.1]": false, "[localhost]:1": false, "[::1": false, "127.0.0.1@evil.test": false, "evil.test\x00.localhost": false,
	} {
		want := "host"
		if served {
			want = ""
		}
		require.Equal(t, want, reason(t, p, ask(http.MethodGet, host), Route{}), "%q", host)
	}
}

func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	const host = "127.0.0.1:4646"
	for name, c := range map[string]struct {
		headers []string
		served  bool
	}{
		"no browser":              {nil, true},
		"the node's own page":     {[]string{"Origin", "http://127.0.0.1:4646", "Sec-Fetch-Site", "same-origin"}, true},
		"behind TLS of a proxy":   {[]string{"Origin", "https://127.0.0.1:4646", "Sec-Fetch-Site", "same-origin"}, true},
		"an older browser":        {[]string{"Origin", "http://127.0.0.1:4646"}, true},
		"an address typed in":     {[]string{"Sec-Fetch-Site", "none"}, true},
		"another site":            {[]string{"Origin", "http://evil.test", "Sec-Fetch-Site", "cross-site"}, false},
		"another port":            {[]string{"Origin", "http://127.0.0.1:8000", "Sec-Fetch-Site", "same-site"}, false},
		"another port, no Origin": {[]string{"Sec-Fetch-Site", "same-site"}, false},
		"a sandboxed frame":       {[]string{"Origin", "null", "Sec-Fetch-Site", "cross-site"}, false},
		"an older browser's":      {[]string{"Origin", "http://evil.test"}, false},
		"no origin to tell":       {[]string{"Origin", "null"}, false},
		"a lie of one":            {[]string{"Origin", "http://evil.test", "Sec-Fetch-Site", "same-origin"}, false},
		"a lie of the other":      {[]string{"Origin", "http://127.0.0.1:4646", "Sec-Fetch-Site", "cross-site"}, false},
		"none and an origin":      {[]string{"Origin", "http://evil.test", "Sec-Fetch-Site", "none"}, false},
		"a second origin":         {[]string{"Origin", "http://127.0.0.1:4646", "Origin", "http://evil.test"}, false},
		"a second site":           {[]string{"Sec-Fetch-Site", "none", "Sec-Fetch-Site", "cross-site"}, false},
		"an empty origin":         {[]string{"Origin", ""}, false},
		"a word that is unknown":  {[]string{"Sec-Fetch-Site", "Same-Origin"}, false},
		"another scheme":          {[]string{"Origin", "file://127.0.0.1:4646"}, false},
		"an extension":            {[]string{"Origin", "chrome-extension://abcdef"}, false},
		"another name for it":     {[]string{"Origin", "http://localhost:4646"}, false},
		"not a URL":               {[]string{"Origin", "http://127.0.0.1:4646 http://evil.test"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
				want := "origin"
				if c.served {
					want = ""
				}
				require.Equal(t, want, reason(t, &Policy{}, ask(method, host, c.headers...), Route{}), method)
			}
		})
	}
}

func TestNoBrowserChangesAnythingByGET(t *testing.T) {
	const host = "10.0.0.1:4646"
	changes := Route{Changes: true}
	for name, headers := range map[string][]string{
		// The headers of a picture: to this address, a browser tells nothing of the page.
		"a picture":           {"User-Agent", "Mozilla/5.0 (X11; Linux x86_64)", "Accept", "image/*"},
		"without its name":    {"Accept-Language", "en"},
		"with a cookie":       {"Cookie", "a=b"},
		"a link":              {"Referer", "http://evil.test/"},
		"typed in":            {"Sec-Fetch-Site", "none"},
		"the node's own page": {"Origin", "http://10.0.0.1:4646", "Sec-Fetch-Site", "same-origin"},
		"a hint":              {"Sec-Ch-Ua", "x"},
	} {
		require.Equal(t, "browser", reason(t, &Policy{}, ask(http.MethodGet, host, headers...), changes), name)
		require.Empty(t, reason(t, &Policy{}, ask(http.MethodGet, host, headers...), Route{}), name)
	}
	for name, headers := range map[string][]string{
		"Nomad's command line": {"User-Agent", "Go-http-client/1.1", "Accept-Encoding", "gzip", TokenHeader, "x"},
		"curl":                 {"User-Agent", "curl/8.5.0", "Accept", "*/*"},
		"nothing":              nil,
	} {
		require.Empty(t, reason(t, &Policy{}, ask(http.MethodGet, host, headers...), changes), name)
	}
}

var errUnknown = errors.New("unknown")

// tokens knows two.
func tokens(secret string) (*structs.ACLToken, error) {
	switch secret {
	case "manager":
		return &structs.ACLToken{Type: structs.ACLManagement}, nil
	case "reader":
		return &structs.ACLToken{Type: structs.ACLClient, Policies: []string{structs.ACLReadOnly}}, nil
	}
	return nil, errUnknown
}

func TestWhatATokenAllows(t *testing.T) {
	p := &Policy{Token: tokens}
	check := func(needs acl.Level, headers ...string) error {
		_, err := p.Check(ask(http.MethodGet, "localhost", headers...), Route{Needs: needs})
		return err
	}
	require.NoError(t, check(acl.Anyone))
	require.ErrorIs(t, check(acl.Reader), ErrDenied)
	require.ErrorIs(t, check(acl.Manager), ErrDenied)
	require.NoError(t, check(acl.Reader, TokenHeader, "reader"))
	require.ErrorIs(t, check(acl.Manager, TokenHeader, "reader"), ErrDenied)
	require.NoError(t, check(acl.Manager, TokenHeader, "manager"))
	require.NoError(t, check(acl.Manager, "Authorization", "Bearer manager"))
	require.NoError(t, check(acl.Manager, "Authorization", "bearer   manager "))
	require.ErrorIs(t, check(acl.Manager, "Authorization", "Basic manager"), ErrDenied)
	require.ErrorIs(t, check(acl.Manager, "Authorization", "manager"), ErrDenied)
	require.ErrorIs(t, check(acl.Reader, TokenHeader, "other"), errUnknown)
	require.ErrorIs(t, check(acl.Reader, TokenHeader, "other", "Authorization", "Bearer manager"), errUnknown, "Nomad's header goes first")
	require.EqualError(t, ErrDenied, "Permission denied")

	caller, err := p.Check(ask(http.MethodGet, "localhost", TokenHeader, "manager"), Route{Needs: acl.Manager})
	require.NoError(t, err)
	require.Equal(t, acl.Manager, caller.Rights.Level())

	off := &Policy{}
	_, err = off.Check(ask(http.MethodPut, "localhost", TokenHeader, "other"), Route{Needs: acl.Manager})
	require.NoError(t, err, "without ACLs no token is looked at")
}

// A page that has the token is a page all the same.
func TestATokenDoesNotMakeAPageLessForeign(t *testing.T) {
	p := &Policy{Token: tokens}
	r := ask(http.MethodPut, "localhost", TokenHeader, "manager", "Origin", "http://evil.test")
	require.Equal(t, "origin", reason(t, p, r, Route{Needs: acl.Manager}))
	r = ask(http.MethodPut, "evil.test", TokenHeader, "manager")
	require.Equal(t, "host", reason(t, p, r, Route{Needs: acl.Manager}))
}

// What rules can allow is let through to be looked at, for who has a token.
func TestATokenWithRulesIsLetThroughToWhatIsRuled(t *testing.T) {
	rules, err := acl.ParseRules(`namespace "a" { policy = "write" }`)
	require.NoError(t, err)
	p := &Policy{
		Token: func(string) (*structs.ACLToken, error) {
			return &structs.ACLToken{Type: structs.ACLClient, Policies: []string{"team"}}, nil
		},
		Rules: func([]string) []*acl.Rules { return []*acl.Rules{rules} },
	}
	caller, err := p.Check(ask("GET", "localhost", TokenHeader, "x"), Route{Needs: acl.Manager, Ruled: true})
	require.NoError(t, err)
	by := caller.Rights
	require.Equal(t, acl.Anyone, by.Level())
	require.True(t, by.Namespace("a", "submit-job"))
	_, err = p.Check(ask("GET", "localhost", TokenHeader, "x"), Route{Needs: acl.Reader})
	require.ErrorIs(t, err, ErrDenied)
	_, err = p.Check(ask("GET", "localhost"), Route{Needs: acl.Reader, Ruled: true})
	require.ErrorIs(t, err, ErrDenied, "nobody without a token")
}
