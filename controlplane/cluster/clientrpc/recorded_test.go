package clientrpc

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/recorded"
	"github.com/wasmnode/wasmnode/structs"
)

// recordings are what real servers and Nomad's own client of them have said to each other.
const recordings = "../testdata/recorded"

// notAsked are methods of the recordings that a node as here does not answer in the same way.
var notAsked = map[string]string{
	"Allocations.Checks":         "the job of the test has none",
	"Allocations.Exec":           "what it sends depends on what is sent to it",
	"Allocations.GarbageCollect": "the allocation of the recording had ended",
	"Allocations.Stats":          "the driver of the test has no figures; make cluster compares them",
	"NodeIdentity.Get":           "the node of the test has no servers that gave it an identity",
	"NodeIdentity.Renew":         "the node of the test has no servers that gave it an identity",
}

// recordedAnswers asks what real servers were heard to ask Nomad's own client, and wants answers with the
// same fields, of the same types.
func (w *world) recordedAnswers(t *testing.T) {
	id := w.run("recorded", args{"stdout_string": "hello\n"})
	files, err := filepath.Glob(filepath.Join(recordings, "*", "nomad.jsonl"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	restarts := uint64(0)
	for _, file := range files {
		heard, err := recorded.Read(file)
		require.NoError(t, err)
		var theirs, ours []recorded.Exchange
		for _, x := range heard {
			if x.By != recorded.ByServer || x.Error != "" || notAsked[x.Method] != "" {
				continue
			}
			own := recorded.Exchange{By: x.By, Method: x.Method}
			if x.Frames == nil {
				own.Reply = w.ask(x.Method, w.own(x.Args, id))
			} else {
				x.Reply, own.Reply = contentOf(x.Frames[0]), w.firstFrame(x.Method, w.own(x.Args, id))
				x.Frames = nil
			}
			theirs, ours = append(theirs, x), append(ours, own)
			if x.Method == "Allocations.Restart" {
				restarts++ // what is asked next is asked of a task that runs
				require.Eventually(t, func() bool {
					state, err := w.node.AllocationState(id)
					task := state.TaskStates["task"]
					return err == nil && task.State == structs.TaskRunning && task.Restarts == restarts
				}, time.Minute, time.Millisecond)
			}
		}
		require.NotEmpty(t, ours)
		require.Empty(t, recorded.CompareAll(theirs, ours), file)
	}
}

// own is a recorded question about an allocation and a task of the test.
func (w *world) own(recordedArgs any, allocID string) args {
	a := maps.Clone(recordedArgs.(map[string]any))
	for key, value := range map[string]string{"AllocID": allocID, "NodeID": w.node.ID(), "Task": "task", "TaskName": "task"} {
		if text, _ := a[key].(string); text != "" {
			a[key] = value
		}
	}
	if path, is := a["Path"].(string); is {
		a["Path"] = strings.Replace(path, "/t.", "/task.", 1)
	}
	return a
}

// firstFrame is what the first frame of a stream has in it.
func (w *world) firstFrame(method string, a args) (content any) {
	w.t.Helper()
	st, err := w.server.Open(w.t.Context(), method, a)
	require.NoError(w.t, err)
	defer st.Close()
	payload, err := st.Receive()
	require.NoError(w.t, err)
	return contentOf(map[string]any{"Payload": string(payload)})
}

// contentOf is what a frame has in it: JSON, or where that was asked for the text itself.
func contentOf(frame any) (content any) {
	payload := frame.(map[string]any)["Payload"].(string)
	if json.Unmarshal([]byte(payload), &content) != nil {
		return payload
	}
	return content
}
