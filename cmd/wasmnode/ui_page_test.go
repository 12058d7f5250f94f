package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheAddressOfThePage asks a node that has a job, an allocation and an evaluation.
func TestTheAddressOfThePage(t *testing.T) {
	const alloc, node = "aaaaaaaa-2222-3333-4444-555555555555", "bbbbbbbb-2222-3333-4444-555555555555"
	matches := map[string]string{
		"web": `"jobs": ["we/b"]`, "aaaa": `"allocs": ["` + alloc + `"]`, "bbbb": `"nodes": ["` + node + `"]`, "cccc": `"evals": ["cccc"]`, "zzzz": ``,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/v1/search":
			body, _ := io.ReadAll(r.Body)
			for text, found := range matches {
				if strings.Contains(string(body), `"`+text+`"`) {
					_, _ = io.WriteString(w, `{"Matches": {`+found+`}}`)
				}
			}
		case r.URL.Path == "/v1/jobs":
			_, _ = io.WriteString(w, `[{"ID": "we/b", "Namespace": "team"}]`)
		case strings.HasPrefix(r.URL.Path, "/v1/job/"):
			_, _ = io.WriteString(w, `{"ID": "we/b", "Namespace": "team"}`)
		case r.URL.Path == "/v1/allocations":
			_, _ = io.WriteString(w, `[{"ID": "`+alloc+`"}]`)
		case strings.HasPrefix(r.URL.Path, "/v1/allocation/"):
			_, _ = io.WriteString(w, `{"ID": "`+alloc+`"}`)
		case strings.HasPrefix(r.URL.Path, "/v1/node/"):
			_, _ = io.WriteString(w, `{"ID": "`+node+`"}`)
		case r.URL.Path == "/v1/nodes":
			_, _ = io.WriteString(w, `[{"ID": "`+node+`"}]`)
		}
	}))
	defer s.Close()
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{nil, 0, "URL for web UI: " + s.URL + "/ui/\n"},
		{[]string{"web"}, 0, "URL for web UI: " + s.URL + "/ui/jobs/we%2Fb@team\n"},
		{[]string{"aaaa"}, 0, "URL for web UI: " + s.URL + "/ui/allocations/" + alloc + "\n"},
		{[]string{"bbbb"}, 0, "URL for web UI: " + s.URL + "/ui/clients/" + node + "\n"},
		{[]string{"cccc"}, 1, "have no page of their own"},
		{[]string{"zzzz"}, 1, `unable to resolve ID: "zzzz"`},
		{[]string{"-authenticate"}, 1, "there are no one-time tokens"},
		{[]string{"-address=unix:///run/x.sock"}, 1, "which browsers cannot open. Where your browser is: ssh -N -L 4646:/run/x.sock "},
		{[]string{"a", "b"}, 1, "ui takes"},
		{[]string{"-json"}, 0, `"URL": "` + s.URL + `/ui/"`},
	} {
		var out bytes.Buffer
		command := &uiCommand{meta{ui: ui{out: &out, err: &out}}}
		require.Equal(t, c.code, command.Run(append([]string{"-show-url", "-address=" + s.URL}, c.args...)), "%v: %s", c.args, out.String())
		require.Contains(t, out.String(), c.text, "%v", c.args)
	}
	t.Setenv("DISPLAY", "")
	t.Setenv("WAYLAND_DISPLAY", "")
	var out bytes.Buffer
	require.Zero(t, (&uiCommand{meta{ui: ui{out: &out, err: &out}}}).Run([]string{"-address=" + s.URL}))
	require.Equal(t, "No browser can be opened from here. URL for web UI: "+s.URL+"/ui/\n", out.String())
}
