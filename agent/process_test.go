package agent_test

import (
	"bytes"
	"io"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/agenttest"
)

// TestAProcessIsATaskLikeAnother follows a process through every layer: its exit code
// is the task's, and its output is in the task's logs.
func TestAProcessIsATaskLikeAnother(t *testing.T) {
	a := agenttest.Start(t, agenttest.Options{Drivers: []string{"raw_exec"}, CodeCache: codeCache})
	job := agenttest.Job("process", "raw_exec", map[string]any{
		"command": "/bin/sh", "args": []string{"-c", `echo "$NOMAD_TASK_NAME says"; exit 42`},
	})
	never := 0
	job.TaskGroups[0].RestartPolicy = &nomad.RestartPolicy{Attempts: &never}
	job.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Attempts: &never}
	_, _, err := a.Client.Jobs().Register(job, nil)
	require.NoError(t, err)
	stub := a.Await(t, "process", nomad.AllocClientStatusFailed)[0]

	task := job.TaskGroups[0].Tasks[0].Name
	var codes []string
	for _, e := range stub.TaskStates[task].Events {
		if e.Type == nomad.TaskTerminated {
			codes = append(codes, e.Details["exit_code"])
		}
	}
	require.Equal(t, []string{"42"}, codes)

	alloc, _, err := a.Client.Allocations().Info(stub.ID, nil)
	require.NoError(t, err)
	frames, errs := a.Client.AllocFS().Logs(alloc, false, task, nomad.FSLogNameStdout, nomad.OriginStart, 0, nil, nil)
	var said bytes.Buffer
	for frame := range frames {
		said.Write(frame.Data)
	}
	select {
	case err := <-errs:
		require.ErrorIs(t, err, io.EOF)
	default:
	}
	require.Equal(t, task+" says\n", said.String())
}
