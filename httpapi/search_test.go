package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/api/contexts"
	"github.com/stretchr/testify/require"
)

func TestFuzzySearchLooksIntoNamesAndJobs(t *testing.T) {
	_, c, _ := watched(t)
	job := mock("web", map[string]any{"command": "/bin/sleep", "image": "redis:7"})
	job.TaskGroups[0].Name = new("grp-web")
	job.TaskGroups[0].Tasks[0].Name = "task-web"
	_, _, err := c.Jobs().Register(job, nil)
	require.NoError(t, err)
	allocs, _, err := c.Jobs().Allocations("web", true, nil)
	require.NoError(t, err)
	m := func(id string, scope ...string) []nomad.FuzzyMatch { return []nomad.FuzzyMatch{{ID: id, Scope: scope}} }
	web := map[contexts.Context][]nomad.FuzzyMatch{
		"jobs":   m("web", "default", "web"),
		"groups": m("grp-web", "default", "web"),
		"tasks":  m("task-web", "default", "web", "grp-web"),
	}
	withAlloc := map[contexts.Context][]nomad.FuzzyMatch{"allocs": m("web.grp-web[0]", "default", allocs[0].ID)}
	for kind, matches := range web {
		withAlloc[kind] = matches
	}
	for _, s := range []struct {
		text string
		in   contexts.Context
		want map[contexts.Context][]nomad.FuzzyMatch
	}{
		{"WE", contexts.All, withAlloc},
		{"we", contexts.Jobs, web},
		{"sle", contexts.Jobs, map[contexts.Context][]nomad.FuzzyMatch{"commands": m("/bin/sleep", "default", "web", "grp-web", "task-web")}},
		{"redis", contexts.All, map[contexts.Context][]nomad.FuzzyMatch{"images": m("redis:7", "default", "web", "grp-web", "task-web")}},
		{"her", contexts.All, map[contexts.Context][]nomad.FuzzyMatch{"nodes": m("here", "11111111-1111-1111-1111-111111111111")}},
		{"efau", contexts.Namespaces, map[contexts.Context][]nomad.FuzzyMatch{"namespaces": m("default")}},
		{allocs[0].EvalID[:8], contexts.Evals, map[contexts.Context][]nomad.FuzzyMatch{"evals": m(allocs[0].EvalID)}},
		{"nothing", contexts.All, map[contexts.Context][]nomad.FuzzyMatch{}},
	} {
		found, _, err := c.Search().FuzzySearch(s.text, s.in, nil)
		require.NoError(t, err, s.text)
		require.Equal(t, s.want, found.Matches, s.text)
	}
}

func TestSearchesAreBoundedAndSayWhenTheyAreCut(t *testing.T) {
	_, c, url := watched(t)
	for i := range 22 {
		register(t, c, fmt.Sprintf("many-%02d", i))
	}
	found, _, err := c.Search().PrefixSearch("many", contexts.Jobs, nil)
	require.NoError(t, err)
	require.Len(t, found.Matches[contexts.Jobs], 20)
	require.Equal(t, "many-00", found.Matches[contexts.Jobs][0])
	require.Equal(t, map[contexts.Context]bool{contexts.Jobs: true}, found.Truncations)
	fuzzy, _, err := c.Search().FuzzySearch("any", contexts.Jobs, nil)
	require.NoError(t, err)
	require.Len(t, fuzzy.Matches[contexts.Jobs], 20)
	require.True(t, fuzzy.Truncations[contexts.Jobs])
	none, _, err := c.Search().PrefixSearch("many", contexts.Jobs, &nomad.QueryOptions{Namespace: "other"})
	require.NoError(t, err)
	require.Empty(t, none.Matches[contexts.Jobs])

	for body, want := range map[string]string{
		`{"Text":"w","Context":"all"}`:                                 "fuzzy search query must be at least 2 characters, got 1",
		`{"Text":"web","Context":"foo"}`:                               `context must be one of [allocs jobs nodes node_pools evals deployment plugins volumes scaling_policy vars namespaces host_volumes] or 'all' for all contexts; got "foo"`,
		`{"Text":"` + strings.Repeat("x", 1025) + `","Context":"all"}`: "fuzzy search query must be at most 1024 characters, got 1025",
	} {
		r, err := http.Post(url+"/v1/search/fuzzy", "", strings.NewReader(body))
		require.NoError(t, err)
		b, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		r.Body.Close()
		require.Equal(t, http.StatusBadRequest, r.StatusCode)
		require.Equal(t, want, string(b))
	}
	http.DefaultClient.CloseIdleConnections()
}
