package httpapi_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func TestHealthTellsTheConditionsOfTheClientAndTheServerApart(t *testing.T) {
	for name, test := range map[string]struct {
		conditions []structs.Condition
		status     int
		body       string
	}{
		"nothing to tell": {nil, http.StatusOK, `{"client":{"ok":true,"message":"ok"},"server":{"ok":true,"message":"ok"},"conditions":[]}`},
		"healthy, with something to know": {
			[]structs.Condition{{Name: "b", Text: "one", Remedy: "type this", Since: time.Unix(1700000000, 0)}, {Name: "a", Text: "two"}},
			http.StatusOK, `{"client":{"ok":true,"message":"one; two"},"server":{"ok":true,"message":"ok"},"conditions":[
				{"name":"b","part":"client","unhealthy":false,"text":"one","since":"2023-11-14T22:13:20Z","remedy":"type this"},
				{"name":"a","part":"client","unhealthy":false,"text":"two"}]}`,
		},
		"a part that is not healthy": {
			[]structs.Condition{{Name: "a", Text: "one", Server: true, Unhealthy: true}, {Name: "b", Text: "two", Server: true}},
			http.StatusInternalServerError, `{"client":{"ok":true,"message":"ok"},"server":{"ok":false,"message":"one; two"},"conditions":[
				{"name":"a","part":"server","unhealthy":true,"text":"one"},{"name":"b","part":"server","unhealthy":false,"text":"two"}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, plane(t), idle{}, test.conditions...)
			answer, err := s.Client().Get(s.URL + "/v1/agent/health")
			require.NoError(t, err)
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			require.Equal(t, test.status, answer.StatusCode)
			require.JSONEq(t, test.body, string(body))
		})
	}
}
