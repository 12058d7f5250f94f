package conform

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// The bounds of what a plugin tells in a call, as ABI.md lists them: what is beyond is cut or
// lost.
const (
	maxEventBytes = 1 << 10
	maxEvents     = 100
	maxLineBytes  = 8 << 10
	maxLines      = 200
	maxNotes      = 32
	maxNoteBytes  = 256
)

// listen notes what an ordinary call told beyond the bounds.
func (r *run) listen(c Call, out Outcome) {
	if n := len(out.Events); n > maxEvents {
		r.events = append(r.events, fmt.Sprintf("%s sends %d events, of which a node may take %d", c.Op, n, maxEvents))
	}
	for _, e := range out.Events {
		if problem := checkEvent(c, e); problem != "" {
			r.events = append(r.events, c.Op+" "+problem)
		}
	}
	if n := len(out.Lines); n > maxLines {
		r.lines = append(r.lines, fmt.Sprintf("%s logs %d lines, of which a node may show %d", c.Op, n, maxLines))
	}
	if n := slices.Max(append([]int{0}, out.Lines...)); n > maxLineBytes {
		r.lines = append(r.lines, fmt.Sprintf("%s logs a line of %d bytes, of which a node shows %d", c.Op, n, maxLineBytes))
	}
}

// checkEvent returns what of an event the node would not show.
func checkEvent(c Call, e *wasmnodev1.TaskEvent) string {
	switch {
	case c.Task != nil && e.TaskId != c.Task.Id:
		return "sends an event of another task than it is called about"
	case len(e.Message) > maxEventBytes:
		return fmt.Sprintf("sends an event of %d bytes, of which a node shows %d", len(e.Message), maxEventBytes)
	case len(e.Annotations) > maxNotes:
		return fmt.Sprintf("sends an event with %d annotations, and a node takes %d", len(e.Annotations), maxNotes)
	}
	for k, v := range e.Annotations {
		if len(k) > maxNoteBytes || len(v) > maxNoteBytes {
			return fmt.Sprintf("sends an event with an annotation of %d bytes, of which a node shows %d", max(len(k), len(v)), maxNoteBytes)
		}
	}
	return ""
}

// told checks what all ordinary calls before it told.
func (r *run) told() {
	for _, c := range []struct {
		name  string
		wrong []string
	}{{"events", r.events}, {"log", r.lines}} {
		var problem error
		if wrong := c.wrong; len(wrong) > 0 {
			slices.Sort(wrong)
			problem = errors.New(strings.Join(slices.Compact(wrong), "; "))
		}
		r.done(c.name, problem)
	}
}

// maxInput is how long a request may be.
const maxInput = 4 << 20

// longSignal sends the longest request that there is, with a name of a signal that is nearly all
// of it: an answer that repeats it twice would be too long.
func (r *run) longSignal(t *taken) error {
	request := &wasmnodev1.DriverSignalTaskRequest{TaskId: t.config.Id, Handle: t.handle, Signal: "SIG"}
	request.Signal += strings.Repeat("X", maxInput-len(encode(request))-len("\xff\xff\xff\x01"))
	r.odd = true
	defer func() { r.odd = false }()
	return faultOf(r.answers(t, abi.OpDriverSignalTask, request))
}

// largeTask starts a task whose environment is longer than a handle may be: one that is kept in
// it does not fit.
func (r *run) largeTask() error {
	task, err := r.node.NewTask()
	if err != nil {
		return err
	}
	for i := range 2 * maxState / maxEventBytes {
		task.Env[fmt.Sprintf("LARGE_%d", i)] = strings.Repeat("x", maxEventBytes)
	}
	t, out, err := r.startTask(task, false, Fault{})
	defer r.end(t)
	if out.Err != nil {
		return faultOf(out.Err)
	}
	return err
}
