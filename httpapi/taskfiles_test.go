package httpapi_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/jobspec"
)

const filesJob = `
job "files" {
  group "g" {
    update {
      min_healthy_time = "1s"
    }
    network {
      port "http" {
        static = %d
      }
    }
    task "task" {
      driver = "mock_driver"
      config {
        run_for = "1h"
      }
      resources {
        cpu    = 10
        memory = 16
      }
      artifact {
        source      = "%s/word.txt"
        destination = "local/words"
      }
      template {
        data        = "${NOMAD_TASK_NAME} says {{ file \"local/words/word.txt\" }} to {{ env \"NOMAD_JOB_ID\" }} on {{ env \"NOMAD_PORT_http\" }}"
        destination = "local/said"
      }
      service {
        port = "http"
        check {
          type     = "tcp"
          interval = "1s"
          timeout  = "1s"
        }
      }
    }
  }
}`

// register parses a job file as the command line does and registers it.
func (w *world) register(t *testing.T, hcl string) error {
	t.Helper()
	job, err := jobspec.Parse(jobspec.Options{Path: "job.hcl", Content: []byte(hcl)})
	require.NoError(t, err)
	_, _, err = w.Client.Jobs().Register(job, nil)
	return err
}

func TestArtifactsTemplatesAndChecksOfAJobFileReachTheNode(t *testing.T) {
	words := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	t.Cleanup(words.Close)
	listener, err := net.Listen("tcp", ":0") // the node's address may be another than the loopback's
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	port := listener.Addr().(*net.TCPAddr).Port

	w := newWorld(t, "mock")
	require.NoError(t, w.register(t, fmt.Sprintf(filesJob, port, words.URL)))
	stub := w.Await(t, "files", nomad.AllocClientStatusRunning)[0]
	alloc, _, err := w.Client.Allocations().Info(stub.ID, nil)
	require.NoError(t, err)
	file, err := w.Client.AllocFS().Cat(alloc, "task/local/said", nil)
	require.NoError(t, err)
	requireContent(t, fmt.Sprintf("${NOMAD_TASK_NAME} says hello to files on %d", port), file)

	var checks nomad.AllocCheckStatuses
	require.Eventually(t, func() bool {
		checks, err = w.Client.Allocations().Checks(stub.ID, nil)
		return err == nil && len(checks) == 1 && status(checks) == "success"
	}, time.Minute, 50*time.Millisecond)
	for id, c := range checks {
		require.Equal(t, id, c.ID)
		require.Equal(t, "files-g-task", c.Service)
		require.Equal(t, "task", c.Task)
		require.Equal(t, "files.g[0]", c.Group)
		require.Equal(t, "healthiness", c.Mode)
		require.Equal(t, "nomad: tcp ok", c.Output)
	}
	require.Equal(t, http.StatusNotFound, w.get(t, "/v1/client/allocation/none/checks").status)
}

func status(checks nomad.AllocCheckStatuses) string {
	for _, c := range checks {
		return c.Status
	}
	return ""
}

func TestUnsupportedFieldsOfAJobAreReportedAtRegistration(t *testing.T) {
	w := newWorld(t, "mock")
	err := w.register(t, strings.NewReplacer(`"tcp"`, `"grpc"`, "file \\\"local", "key \\\"local").Replace(fmt.Sprintf(filesJob, 20000, "file:///etc")))
	for _, want := range []string{
		`group "g": task "task": artifact 1: source: "file:///etc/word.txt" is not fetched`,
		`group "g": task "task": template 1: function "key" is not supported`,
		`group "g": task "task": service "files-g-task": check "": type: "grpc" is not supported`,
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestThePayloadOfARegisteredJobReachesItsTask(t *testing.T) {
	w := newWorld(t, "mock")
	job := mock("paid", nil)
	job.Payload = []byte("work to do")
	job.TaskGroups[0].Tasks[0].DispatchPayload = &nomad.DispatchPayloadConfig{File: "in/work.txt"}
	alloc := w.run(t, job, "running")
	require.Equal(t, "work to do", w.get(t, "/v1/client/fs/cat/"+alloc.ID+"?path=task/local/in/work.txt").body)
}
