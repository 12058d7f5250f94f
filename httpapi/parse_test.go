package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestAJobFileIsParsed(t *testing.T) {
	w := newWorld(t)
	hcl := `variable "n" {}
job "x" {
  group "g" {
    count = var.n
    task "t" { driver = "d" }
  }
}`
	job, err := w.Client.Jobs().ParseHCLOpts(&nomad.JobsParseRequest{JobHCL: hcl, Variables: "n = 3"})
	require.NoError(t, err)
	require.Equal(t, "x", *job.ID)
	require.Equal(t, 3, *job.TaskGroups[0].Count)
	require.Nil(t, job.Priority)
	job, err = w.Client.Jobs().ParseHCLOpts(&nomad.JobsParseRequest{JobHCL: hcl, Variables: "n = 3", Canonicalize: true})
	require.NoError(t, err)
	require.Equal(t, 50, *job.Priority)
	for body, want := range map[string]string{
		`{}`:                 "Job spec is empty",
		`{"JobHCL":"job {"}`: "Failed to parse job: input.hcl:1",
		`{"JobHCL":"job \"x\" {\n name = file(\"/etc/passwd\")\n}"}`: "file",
	} {
		r := w.do(t, "POST", "/v1/jobs/parse", body)
		require.Equal(t, http.StatusBadRequest, r.status, body)
		require.Contains(t, r.body, want)
		require.NotContains(t, r.body, "root:")
	}
}

// TestAJobFileThatComputesWithoutEndIsRefused: what it takes, it takes in a process of its
// own.
func TestAJobFileThatComputesWithoutEndIsRefused(t *testing.T) {
	w := newWorld(t)
	loop := "0"
	for i := range 6 {
		loop = fmt.Sprintf("length([for x%d in range(200): %s])", i, loop)
	}
	long := `[for x in range(1000): "` + strings.Repeat("x", 60_000) + `"]`
	for value, want := range map[string]string{loop: "it takes more than 2 s of a processor", "jsonencode(" + long + ")": "it(s answer has| takes) more than "} {
		body, err := json.Marshal(nomad.JobsParseRequest{JobHCL: `job "x" {` + "\n meta {\n n = " + value + "\n }\n}"})
		require.NoError(t, err)
		r := w.do(t, "POST", "/v1/jobs/parse", string(body))
		require.Equal(t, http.StatusBadRequest, r.status)
		require.Regexp(t, "^Failed to parse job: input.hcl: the job file is too costly to evaluate: "+want, r.body)
	}
}

func TestStatusesOfJobsHaveWhatRuns(t *testing.T) {
	w := newWorld(t, "mock")
	w.run(t, mock("one", nil), nomad.AllocClientStatusRunning)
	w.run(t, mock("two", nil), nomad.AllocClientStatusRunning)
	type status struct {
		ID            string
		GroupCountSum int
		Allocs        []struct{ ClientStatus, Group string }
	}
	all := decoded[[]status](t, w.get(t, "/v1/jobs/statuses?reverse=true").body)
	require.Len(t, all, 2)
	named := decoded[[]status](t, w.do(t, "POST", "/v1/jobs/statuses", `{"Jobs":[{"Namespace":"default","ID":"one"}]}`).body)
	require.Len(t, named, 1)
	require.Equal(t, "one", named[0].ID)
	require.Equal(t, 1, named[0].GroupCountSum)
	require.Equal(t, "running", named[0].Allocs[0].ClientStatus)
	first := w.get(t, "/v1/jobs/statuses?per_page=1")
	require.Len(t, decoded[[]status](t, first.body), 1)
	rest := decoded[[]status](t, w.get(t, "/v1/jobs/statuses?next_token="+first.header.Get("X-Nomad-NextToken")).body)
	require.Len(t, rest, 1)
}

func TestActionsAreListedAndRefused(t *testing.T) {
	w := newWorld(t, "mock")
	job := mock("acts", nil)
	job.TaskGroups[0].Tasks[0].Actions = []*nomad.Action{{Name: "greet", Command: "/bin/echo", Args: []string{"hello"}}}
	alloc := w.run(t, job, nomad.AllocClientStatusRunning)
	require.JSONEq(t, `[{"Name":"greet","TaskName":"task","TaskGroupName":"group"}]`, w.get(t, "/v1/job/acts/actions").body)
	for query, status := range map[string]int{
		"allocID=none&task=task&action=greet":                       http.StatusNotFound,
		"allocID=" + alloc.ID + "&task=other&action=greet":          http.StatusBadRequest,
		"allocID=" + alloc.ID + "&task=task&action=other":           http.StatusNotFound,
		"allocID=" + alloc.ID + "&task=task&action=greet&group=x":   http.StatusNotFound,
		"allocID=" + alloc.ID + "&task=task&action=greet&tty=maybe": http.StatusBadRequest,
	} {
		require.Equal(t, status, w.get(t, "/v1/job/acts/action?"+query).status, query)
	}
	require.Equal(t, http.StatusNotFound, w.get(t, "/v1/job/other/action?allocID="+alloc.ID+"&task=task&action=greet").status)
}
