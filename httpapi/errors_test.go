package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const smallJob = `{"Job":{"ID":"small","Type":"batch","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"none"}]}]}}`

func TestARefusalHasAStatusAndOneLineOfText(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		text                     string
	}{
		{"an unknown path", "GET", "/v1/nothing", "", 404, "no such endpoint: /v1/nothing"},
		{"no version", "GET", "/jobs", "", 404, "no such endpoint: /jobs"},
		{"the root", "GET", "/", "", 404, "no such endpoint: /"},
		{"an unknown job", "GET", "/v1/job/none", "", 404, "job not found"},
		{"an unknown job's summary", "GET", "/v1/job/none/summary", "", 404, "job not found"},
		{"an unknown job's versions", "GET", "/v1/job/none/versions", "", 404, "job not found"},
		{"an unknown verb", "GET", "/v1/job/none/thing", "", 404, "job not found"},
		{"evaluate an unknown job", "PUT", "/v1/job/none/evaluate", "{}", 404, `job "none" not found`},
		{"an unknown allocation", "GET", "/v1/allocation/none", "", 404, "alloc not found"},
		{"an unknown evaluation", "GET", "/v1/evaluation/none", "", 404, "eval not found"},
		{"an unknown node", "GET", "/v1/node/none", "", 404, "node not found"},
		{"an unknown node's eligibility", "PUT", "/v1/node/none/eligibility", `{"Eligibility":"eligible"}`, 404, `node "none" not found`},

		{"delete a list", "DELETE", "/v1/jobs", "", 405, "Invalid method"},
		{"write an allocation", "PUT", "/v1/allocation/none", "{}", 405, "Invalid method"},
		{"read a write", "GET", "/v1/system/gc", "", 405, "Invalid method"},
		{"patch", "PATCH", "/v1/jobs", "", 405, "Invalid method"},
		{"write a job's summary", "PUT", "/v1/job/none/summary", "{}", 405, "Invalid method"},

		{"an index that is none", "GET", "/v1/jobs?index=x", "", 400, "Invalid index"},
		{"a negative index", "GET", "/v1/jobs?index=-1", "", 400, "Invalid index"},
		{"a wait that is none", "GET", "/v1/jobs?wait=x", "", 400, "Invalid wait time"},
		{"a negative wait", "GET", "/v1/jobs?index=1&wait=-1s", "", 400, "Invalid wait time"},
		{"a page size that is none", "GET", "/v1/jobs?per_page=x", "", 400, "Expect a number for `per_page`"},
		{"a direction that is none", "GET", "/v1/jobs?reverse=x", "", 400, "Expect `true` or `false` for `reverse`"},
		{"a filter that is none", "GET", "/v1/jobs?filter=)", "", 400, "failed to create result paginator: failed to read filter expression: "},
		{"a filter of what is not there", "GET", "/v1/nodes?filter=Nope==1", "", 400, "failed to read result page: error finding value in datum"},
		{"a staleness that is none", "GET", "/v1/jobs?stale=maybe", "", 400, "Expect `true` or `false` for `stale` query string parameter"},
		{"a topic of three", "GET", "/v1/event/stream?topic=Job:x:y", "", 400, "Invalid topic query: error parsing topics: Invalid key value pair for topic, topic: Job:x:y"},
		{"a purge that is none", "DELETE", "/v1/job/small?purge=x", "", 400, "Expect `true` or `false` for `purge`"},
		{"a job's delay that is none", "DELETE", "/v1/job/small?no_shutdown_delay=x", "", 400, "Expect `true` or `false` for `no_shutdown_delay`"},
		{"an allocation's delay that is none", "PUT", "/v1/allocation/x/stop?no_shutdown_delay=x", "", 400, "Expect `true` or `false` for `no_shutdown_delay`"},

		{"no body", "PUT", "/v1/jobs", "", 400, "Job must be specified"},
		{"no JSON", "PUT", "/v1/jobs", "job \"x\" {}", 400, "request body: invalid character"},
		{"half of the JSON", "PUT", "/v1/jobs", smallJob[:40], 400, "request body: unexpected end of JSON input"},
		{"more than the JSON", "PUT", "/v1/jobs", smallJob + "}", 400, "request body: invalid character"},
		{"a list", "PUT", "/v1/jobs", "[]", 400, "request body: json: cannot unmarshal array"},
		{"a field of the wrong type", "PUT", "/v1/jobs", `{"Job":{"ID":7}}`, 400, "Job.ID"},
		{"null", "PUT", "/v1/jobs", "null", 400, "Job must be specified"},
		{"no job", "PUT", "/v1/jobs", `{"Job":null}`, 400, "Job must be specified"},
		{"no ID", "PUT", "/v1/jobs", `{"Job":{}}`, 400, "Job ID hasn't been provided"},
		{"a null group", "PUT", "/v1/jobs", `{"Job":{"ID":"x","TaskGroups":[null]}}`, 400, "null"},
		{"a null task", "PUT", "/v1/jobs", `{"Job":{"ID":"x","TaskGroups":[{"Tasks":[null]}]}}`, 400, "null"},
		{"a null group to validate", "PUT", "/v1/validate/job", `{"Job":{"ID":"x","TaskGroups":[null]}}`, 200, "null"},
		{"a null constraint", "PUT", "/v1/jobs", strings.Replace(smallJob, `"Type"`, `"Constraints":[null],"Type"`, 1), 400, "null"},
		{"a null template", "PUT", "/v1/jobs", strings.Replace(smallJob, `"Driver"`, `"Templates":[null],"Driver"`, 1), 400, "null"},
		{"a null service", "PUT", "/v1/jobs", strings.Replace(smallJob, `"Driver"`, `"Services":[null],"Driver"`, 1), 400, "Services[0]: it is null"},
		{"evaluate another job", "PUT", "/v1/job/none/evaluate", `{"JobID":"other"}`, 400, "JobID not same as job name"},
		{"a job at another's path", "PUT", "/v1/job/other", smallJob, 400, "Job ID does not match"},
		{"a job that is none", "PUT", "/v1/jobs", `{"Job":{"ID":"x"}}`, 400, "group"},
		{"an eligibility that is none", "PUT", "/v1/node/none/eligibility", `{"Eligibility":"maybe"}`, 400, `invalid scheduling eligibility "maybe"`},
		{"a search that is none", "PUT", "/v1/search", "x", 400, "request body"},
		{"a restart that is none", "PUT", "/v1/client/allocation/none/restart", "x", 400, "request body"},
		{"a signal that is none", "PUT", "/v1/client/allocation/none/signal", "x", 400, "request body"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := w.do(t, c.method, c.path, c.body)
			require.Equal(t, c.status, r.status, r.body)
			require.Contains(t, r.body, c.text)
			if c.status != http.StatusOK {
				require.Equal(t, "text/plain; charset=utf-8", r.header.Get("Content-Type"))
			}
		})
	}
	require.Equal(t, []any{}, w.json(t, "/v1/jobs"), "nothing of it was taken")
}

func TestEveryWriteTakesPutAndPost(t *testing.T) {
	w := newWorld(t)
	for _, method := range []string{http.MethodPut, http.MethodPost} {
		for path, body := range map[string]string{"/v1/jobs": smallJob, "/v1/job/small": smallJob, "/v1/validate/job": smallJob, "/v1/search": `{"Prefix":"x","Context":"all"}`, "/v1/system/gc": ""} {
			r := w.do(t, method, path, body)
			require.Equal(t, http.StatusOK, r.status, "%s %s: %s", method, path, r.body)
			require.NotEmpty(t, r.body, "Nomad's client takes an empty answer for an error")
		}
	}
}

func TestABodyIsReadAsJSONWhateverItsContentType(t *testing.T) {
	w := newWorld(t)
	for _, contentType := range []string{"", "application/json", "text/plain", "application/x-www-form-urlencoded"} {
		r := w.do(t, http.MethodPut, "/v1/validate/job", smallJob, "Content-Type", contentType)
		require.Equal(t, http.StatusOK, r.status, "%q: %s", contentType, r.body)
	}
	newer := strings.Replace(smallJob, `"Job"`, `"FromTheFuture":{"x":[1]},"Job"`, 1)
	require.Equal(t, http.StatusOK, w.do(t, http.MethodPut, "/v1/jobs", newer).status, "newer clients send more")
}

func TestACompressedBodyIsRefused(t *testing.T) {
	w := newWorld(t)
	var compressed bytes.Buffer
	z := gzip.NewWriter(&compressed)
	_, err := z.Write([]byte(smallJob))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	for name, body := range map[string]string{"gzip": compressed.String(), "broken": "\x1f\x8bnothing"} {
		r := w.do(t, http.MethodPut, "/v1/jobs", body, "Content-Encoding", "gzip")
		require.Equal(t, http.StatusUnsupportedMediaType, r.status, name)
		require.Contains(t, r.body, `"gzip"`)
	}
}

func TestABodyHasALimit(t *testing.T) {
	w := newWorld(t)
	const limit = 10 << 20
	pad := func(size int) string {
		const frame = `{"Job":{"ID":"big","Meta":{"x":"%s"}}}`
		return fmt.Sprintf(frame, strings.Repeat("x", size-len(frame)+len("%s")))
	}
	r := w.do(t, http.MethodPut, "/v1/validate/job", pad(limit))
	require.Equal(t, http.StatusOK, r.status, r.body)
	r = w.do(t, http.MethodPut, "/v1/validate/job", pad(limit+1))
	require.Equal(t, http.StatusRequestEntityTooLarge, r.status)
	require.Equal(t, "request body is larger than 10485760 bytes", r.body)
}
