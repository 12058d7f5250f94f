package httpapi_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// registerLater registers a job once a request before it had time to block. When it
// comes too early the request answers at once, which is right as well.
func (w *world) registerLater(t *testing.T, job *nomad.Job) {
	registered := make(chan struct{})
	time.AfterFunc(50*time.Millisecond, func() {
		defer close(registered)
		_, _, err := w.Client.Jobs().Register(job, nil)
		assert.NoError(t, err)
	})
	t.Cleanup(func() { <-registered })
}

func TestABlockingQueryReturnsWithTheChange(t *testing.T) {
	w := newWorld(t, "mock")
	stub := w.run(t, mock("watched", nil), nomad.AllocClientStatusRunning)
	for _, path := range []string{
		"/v1/jobs", "/v1/job/watched", "/v1/job/watched/allocations", "/v1/job/watched/evaluations", "/v1/job/watched/summary",
		"/v1/allocations", "/v1/evaluations", "/v1/node/" + stub.NodeID + "/allocations",
	} {
		t.Run(path, func(t *testing.T) {
			seen := index(t, w.get(t, path))
			// A new version changes the job, its evaluations and its allocations.
			w.registerLater(t, mock("watched", map[string]any{"stdout_string": path}))
			begun := time.Now()
			r := w.get(t, path+"?wait=50s&index="+strconv.FormatUint(seen, 10))
			require.Equal(t, http.StatusOK, r.status)
			require.Greater(t, index(t, r), seen)
			require.Less(t, time.Since(begun), 45*time.Second)
		})
	}
}

func index(t *testing.T, r reply) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(r.header.Get("X-Nomad-Index"), 10, 64)
	require.NoError(t, err, "X-Nomad-Index")
	return n
}

func TestABlockingQueryEndsWithItsWait(t *testing.T) {
	w := newWorld(t, "mock")
	stub := w.run(t, mock("still", map[string]any{"run_for": "1ms"}), nomad.AllocClientStatusComplete)
	for _, path := range []string{"/v1/jobs", "/v1/job/still", "/v1/allocation/" + stub.ID, "/v1/job/still/allocations"} {
		t.Run(path, func(t *testing.T) {
			now := w.get(t, path)
			for _, ahead := range []uint64{0, 1000} {
				begun := time.Now()
				r := w.get(t, path+"?wait=200ms&index="+strconv.FormatUint(index(t, now)+ahead, 10))
				took := time.Since(begun)
				require.GreaterOrEqual(t, took, 200*time.Millisecond)
				require.Less(t, took, 30*time.Second)
				require.Equal(t, http.StatusOK, r.status)
				require.Equal(t, now.body, r.body, "the answer is as it is")
				require.Equal(t, index(t, now), index(t, r))
			}
		})
	}
	t.Run("an old index does not block", func(t *testing.T) {
		begun := time.Now()
		require.Equal(t, http.StatusOK, w.get(t, "/v1/jobs?index=1&wait=30s").status)
		require.Less(t, time.Since(begun), 20*time.Second)
	})
	t.Run("what is missing blocks until it is there", func(t *testing.T) {
		missing := w.get(t, "/v1/job/awaited")
		require.Equal(t, http.StatusNotFound, missing.status)
		w.registerLater(t, mock("awaited", nil))
		r := w.get(t, "/v1/job/awaited?wait=30s&index="+strconv.FormatUint(index(t, missing), 10))
		require.Equal(t, http.StatusOK, r.status, r.body)
	})
}

func TestReadsHaveNomadsHeaders(t *testing.T) {
	w := newWorld(t, "mock")
	r := w.get(t, "/v1/jobs")
	require.Equal(t, "true", r.header.Get("X-Nomad-KnownLeader"))
	require.Equal(t, "0", r.header.Get("X-Nomad-LastContact"))
	require.Equal(t, "[]", r.body, "an empty list is not null")
}

func TestListsAreCutFilteredAndOrdered(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"b-2", "a-1", "b-1", "c", "b-3"} {
		_, _, err := w.Client.Jobs().Register(mock(id, nil), nil)
		require.NoError(t, err)
	}
	for _, c := range []struct {
		name  string
		query string
		want  []string
		next  string
	}{
		{"all, by ID", "", []string{"a-1", "b-1", "b-2", "b-3", "c"}, ""},
		{"a prefix", "prefix=b-", []string{"b-1", "b-2", "b-3"}, ""},
		{"a prefix of nothing", "prefix=x", []string{}, ""},
		{"the first page", "per_page=2", []string{"a-1", "b-1"}, "default.b-2"},
		{"the next page", "per_page=2&next_token=default.b-2", []string{"b-2", "b-3"}, "default.c"},
		{"the last page", "per_page=2&next_token=default.c", []string{"c"}, ""},
		{"a page that fits", "per_page=5", []string{"a-1", "b-1", "b-2", "b-3", "c"}, ""},
		{"a page of a prefix", "prefix=b-&per_page=1", []string{"b-1"}, "default.b-2"},
		{"backwards", "reverse=true&per_page=2", []string{"c", "b-3"}, "default.b-2"},
		{"a filter", `filter=ID == "c"`, []string{"c"}, ""},
		{"a filter on what lists leave out", `filter=TaskGroups is not empty and ID matches "^b"`, []string{"b-1", "b-2", "b-3"}, ""},
		{"Nomad's own filter", `filter=ParentID == "" and ParameterizedJob is not nil`, []string{}, ""},
		{"every namespace", "namespace=*", []string{"a-1", "b-1", "b-2", "b-3", "c"}, ""},
		{"another namespace", "namespace=other", []string{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, err := url.ParseQuery(c.query)
			require.NoError(t, err)
			r := w.get(t, "/v1/jobs?"+q.Encode())
			require.Equal(t, http.StatusOK, r.status, r.body)
			ids := []string{}
			for _, job := range decoded[[]nomad.JobListStub](t, r.body) {
				ids = append(ids, job.ID)
			}
			require.Equal(t, c.want, ids)
			require.Equal(t, c.next, r.header.Get("X-Nomad-NextToken"))
		})
	}
}

func TestUUIDsHavePrefixes(t *testing.T) {
	w := newWorld(t, "mock")
	a := w.run(t, mock("prefixed", nil), nomad.AllocClientStatusRunning)
	for _, thing := range []struct{ list, id string }{{"allocations", a.ID}, {"evaluations", a.EvalID}, {"nodes", a.NodeID}} {
		for name, prefix := range map[string]string{
			"short": thing.id[:8], "with a hyphen": thing.id[:11], "without": strings.ReplaceAll(thing.id, "-", "")[:20],
			"in capitals": strings.ToUpper(thing.id[:8]), "whole": thing.id,
		} {
			t.Run(thing.list+" "+name, func(t *testing.T) {
				list := w.json(t, "/v1/"+thing.list+"?prefix="+prefix).([]any)
				require.Len(t, list, 1)
				require.Equal(t, thing.id, list[0].(map[string]any)["ID"])
			})
		}
		other := "ffffffff"
		if strings.HasPrefix(thing.id, other) {
			other = "00000000"
		}
		require.Empty(t, w.json(t, "/v1/"+thing.list+"?prefix="+other), thing.list)
	}
}

func TestAnswersAreIndentedOnRequest(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, "[\n    \"global\"\n]", w.get(t, "/v1/regions?pretty").body)
	require.Equal(t, `["global"]`, w.get(t, "/v1/regions").body)
}
