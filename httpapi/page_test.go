package httpapi_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/internal/acl"
)

var update = flag.Bool("update", false, "write the page of the API")

const pageOfAPI = "../docs/api.md"

// rowOfPage is that of an endpoint: methods, path, who may, parameters, and a sentence.
var rowOfPage = regexp.MustCompile("(?m)^\\| ([A-Z, ]+) \\| `([^`]+)` \\| ([^|]*) \\| ([^|]*) \\| (.*) \\|$")

// TestEveryRouteIsOnThePageOfTheAPI compares the page with what is served. With -update it writes
// the page, whose sentences stay what they are; those of new rows are to be written by hand.
func TestEveryRouteIsOnThePageOfTheAPI(t *testing.T) {
	old, err := os.ReadFile(pageOfAPI)
	require.NoError(t, err)
	sentences := map[string]string{}
	for _, m := range rowOfPage.FindAllStringSubmatch(string(old), -1) {
		sentences[m[1]+m[2]] = m[5]
	}
	endpoints := slices.DeleteFunc(httpapi.Endpoints(httpapi.Config{ControlPlane: plane(t)}), func(e httpapi.Endpoint) bool {
		return slices.Contains(httpapi.Enterprise, e.Path)
	})
	slices.SortStableFunc(endpoints, func(a, b httpapi.Endpoint) int { return strings.Compare(a.Path, b.Path) })
	var rows strings.Builder
	rows.WriteString("| method | path | who may | parameters | |\n|---|---|---|---|---|\n")
	for len(endpoints) > 0 {
		same := alike(endpoints)
		rows.WriteString(row(endpoints[:same], sentences))
		endpoints = endpoints[same:]
	}
	head, _, found := strings.Cut(string(old), "| method |")
	require.True(t, found, "the page has no table")
	want := head + rows.String()
	if *update {
		require.NoError(t, os.WriteFile(pageOfAPI, []byte(want), 0o644))
	}
	require.Equal(t, want, string(old), "run this test with -update")
	for _, m := range rowOfPage.FindAllStringSubmatch(want, -1) {
		require.Regexp(t, `^[A-Z].{8,}[^.]$`, m[5], "%s %s needs a sentence on the page", m[1], m[2])
	}
	for _, path := range httpapi.Enterprise {
		require.Contains(t, head, strings.Split(path, "/")[2], "it is only Enterprise's")
	}
	for _, name := range httpapi.Everywhere() {
		require.Contains(t, head, "`"+name+"`", "every endpoint takes it")
	}
}

// alike is how many of the first endpoints are one but for their methods.
func alike(of []httpapi.Endpoint) int {
	for i, e := range of {
		if e.Path != of[0].Path || e.Route != of[0].Route || !slices.Equal(e.Own, of[0].Own) {
			return i
		}
	}
	return len(of)
}

func row(of []httpapi.Endpoint, sentences map[string]string) string {
	var methods []string
	for _, e := range of {
		methods = append(methods, e.Method)
	}
	who := map[acl.Level]string{acl.Anyone: "anyone", acl.Reader: "a reader", acl.Manager: "a manager"}[of[0].Needs]
	if of[0].Tasks {
		who += " or a task"
	}
	if of[0].Changes {
		who += ", from no browser"
	}
	parameters := ""
	if len(of[0].Own) > 0 {
		parameters = "`" + strings.Join(of[0].Own, "` `") + "`"
	}
	key := strings.Join(methods, ", ")
	return fmt.Sprintf("| %s | `%s` | %s | %s | %s |\n", key, of[0].Path, who, parameters, sentences[key+of[0].Path])
}
