package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// Newer tools send keys that are not known here, and people mistype some: neither fails, and
// none is dropped without a word.
func TestUnknownKeysOfAJobAreWarnedAbout(t *testing.T) {
	w := newWorld(t, "mock")
	job := `{"id": "keys", "Typo": 1, "Meta": {"any": "key"}, "Type": "batch", "TaskGroups": [{"Name": "g", "CountT": 2, "tasks": [{
		"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1s"}, "KillTimeout": 1000000000,
		"Services": [{"Name": "s", "Checks": [{"Type": "tcp", "Intervall": 1}]}], "Resources": null}]}]}`
	want := `3 warnings:

* "TaskGroups[0].CountT" is no key of a job and is ignored
* "TaskGroups[0].tasks[0].Services[0].Checks[0].Intervall" is no key of a job and is ignored
* "Typo" is no key of a job and is ignored`
	r := w.do(t, http.MethodPut, "/v1/validate/job", `{"Job": `+job+`}`)
	require.Equal(t, http.StatusOK, r.status, r.body)
	require.Equal(t, want, decoded[nomad.JobValidateResponse](t, r.body).Warnings)
	job = strings.Replace(job, `"Checks": [{"Type": "tcp", "Intervall": 1}]`, `"Checkss": []`, 1)
	for _, path := range []string{"/v1/jobs", "/v1/job/keys"} {
		r = w.do(t, http.MethodPut, path, `{"job": `+job+`, "Other": 1}`)
		require.Equal(t, http.StatusOK, r.status, r.body)
		require.Contains(t, decoded[nomad.JobRegisterResponse](t, r.body).Warnings, `"TaskGroups[0].tasks[0].Services[0].Checkss" is no key of a job and is ignored`)
	}
}

func TestWarningsOfUnknownKeysAreBounded(t *testing.T) {
	w := newWorld(t, "mock")
	var keys strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&keys, `"%s%d": 1, `, strings.Repeat("k", 1000), i)
	}
	r := w.do(t, http.MethodPut, "/v1/validate/job", strings.Replace(smallJob, `"ID"`, keys.String()+`"ID"`, 1))
	require.Equal(t, http.StatusOK, r.status, r.body)
	warnings := decoded[nomad.JobValidateResponse](t, r.body).Warnings
	require.Less(t, len(warnings), 4<<10)
	require.Contains(t, warnings, "990 more keys are none of a job's and are ignored")
}

// What a stock client sends of a whole job is known.
func TestNoKeyOfNomadsTypesIsUnknown(t *testing.T) {
	w := newWorld(t, "mock")
	job := mock("whole", nil)
	job.Canonicalize()
	resp, _, err := w.Client.Jobs().Register(job, nil)
	require.NoError(t, err)
	require.Empty(t, resp.Warnings)
}
