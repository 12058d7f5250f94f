package drivertest

import (
	"path"
	"slices"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/workload"
)

// maxStopMs bounds the time that a workload is given to end by itself, see abi/ABI.md.
const maxStopMs = 86_400_000

// workloads is what a driver started and did to it. Unless a test has processes run, nothing does:
// what was started ends when the driver stops it, or a test says so. It belongs to records, whose
// lock guards it.
type workloads struct {
	ended      map[string]*workload.Result // by the ID; nil: it runs
	signals    []WorkloadSignal
	runCommand func(id string, c *workload.Command) (*workload.Ended, error)
}

// WorkloadSignal is a signal that the driver sent to a workload, also to stop it.
type WorkloadSignal struct{ WorkloadID, Signal string }

// WorkloadSignals returns the signals that the driver sent to workloads.
func (n *core) WorkloadSignals() []WorkloadSignal {
	n.records.mu.Lock()
	defer n.records.mu.Unlock()
	return slices.Clone(n.records.workloads.signals)
}

// EndWorkload has a workload of the driver's end: the task's own has the task's ID, one beside it
// that with a slash and its name.
func (n *core) EndWorkload(id string, result *workload.Result) {
	n.records.mu.Lock()
	defer n.records.mu.Unlock()
	n.records.workloads.put(id, result)
}

// OnWorkloadCommand has run stand for the commands that the driver runs in workloads, whatever
// was granted. Until then they are refused. It may be called concurrently.
func (n *core) OnWorkloadCommand(run func(workloadID string, c *workload.Command) (*workload.Ended, error)) {
	n.records.mu.Lock()
	defer n.records.mu.Unlock()
	n.records.workloads.runCommand = run
}

func (w *workloads) put(id string, result *workload.Result) {
	if w.ended == nil {
		w.ended = map[string]*workload.Result{}
	}
	w.ended[id] = result
}

// message is a request or an answer.
type message interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT(b []byte) error
}

// Workload is a function of wasmnode:workload/v1.
func (h *callHost) Workload(function string, request []byte) ([]byte, error) {
	if err := h.denied(); err != nil {
		return nil, err
	}
	if h.taskID == "" {
		return nil, abi.NewError(abi.FailedPrecondition, function+": the call is about no task")
	}
	r := map[string]interface {
		message
		GetName() string
	}{
		abi.FuncWorkloadSignal: &wasmnodev1.WorkloadSignalRequest{}, abi.FuncWorkloadStop: &wasmnodev1.WorkloadStopRequest{},
		abi.FuncWorkloadWait: &wasmnodev1.WorkloadWaitRequest{}, abi.FuncWorkloadStats: &wasmnodev1.WorkloadStatsRequest{},
		abi.FuncWorkloadInspect: &wasmnodev1.WorkloadInspectRequest{}, abi.FuncWorkloadExec: &wasmnodev1.WorkloadExecRequest{},
	}[function]
	if err := r.UnmarshalVT(request); err != nil {
		return nil, abi.NewError(abi.InvalidArgument, function+": "+err.Error())
	}
	id := h.taskID
	if name := r.GetName(); name != "" {
		if !workloadName.MatchString(name) {
			return nil, abi.NewError(abi.InvalidArgument, function+": that is not a workload's name: see abi/ABI.md")
		}
		id += "/" + name
	}
	answer, err := h.askWorkload(id, r)
	if err != nil {
		return nil, err
	}
	return answer.MarshalVT()
}

// askWorkload does what is asked of a workload.
func (h *callHost) askWorkload(id string, request message) (message, error) {
	h.mu.Lock()
	ended, known := h.workloads.ended[id]
	running := h.real[id]
	h.mu.Unlock()
	if !known {
		return nil, abi.NewError(abi.NotFound, "workload "+id+" does not exist")
	}
	if stop, is := request.(*wasmnodev1.WorkloadStopRequest); is && (stop.TimeoutMs < 0 || stop.TimeoutMs > maxStopMs) {
		return nil, abi.NewError(abi.InvalidArgument, "stop: beyond a bound of abi/ABI.md")
	}
	if running != nil && ended == nil {
		if answer, err := h.askReal(id, running, request); answer != nil || err != nil {
			return answer, err
		}
	}
	switch r := request.(type) {
	case *wasmnodev1.WorkloadSignalRequest:
		if ended != nil {
			return nil, abi.NewError(abi.FailedPrecondition, "workload "+id+" has ended")
		}
		h.sendSignal(id, r.Signal, nil)
		return &wasmnodev1.WorkloadSignalResponse{}, nil
	case *wasmnodev1.WorkloadStopRequest:
		if ended == nil {
			h.sendSignal(id, r.Signal, &workload.Result{})
		}
		return &wasmnodev1.WorkloadStopResponse{}, nil
	case *wasmnodev1.WorkloadWaitRequest:
		return &wasmnodev1.WorkloadWaitResponse{Result: ended}, nil
	case *wasmnodev1.WorkloadStatsRequest:
		return &wasmnodev1.WorkloadStatsResponse{Stats: &workload.Figures{TimeNs: 1}}, nil
	case *wasmnodev1.WorkloadExecRequest:
		return h.runInWorkload(id, r, ended != nil)
	}
	state := &workload.State{StartedAtNs: 1, Result: ended}
	if ended != nil {
		state.ExitedAtNs = 2
	}
	return state, nil
}

// sendSignal records a signal, which may end the workload.
func (h *callHost) sendSignal(id, signal string, result *workload.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.workloads.signals = append(h.workloads.signals, WorkloadSignal{id, signal})
	h.workloads.put(id, result)
}

// runInWorkload has a test run a command.
func (h *callHost) runInWorkload(id string, c *workload.Command, ended bool) (message, error) {
	h.mu.Lock()
	run := h.workloads.runCommand
	h.mu.Unlock()
	switch {
	case !path.IsAbs(c.Command) || len(c.Args) > maxHelperArguments || c.TimeoutMs < 0 || c.TimeoutMs > maxHelperMs || c.OutputMaxBytes > maxHelperOutput:
		return nil, abi.NewError(abi.InvalidArgument, "exec: beyond a bound of abi/ABI.md")
	case run == nil:
		return nil, abi.NewError(abi.PermissionDenied, "exec: "+c.Command+" is not granted; a test grants by Node.OnWorkloadCommand")
	case ended:
		return nil, abi.NewError(abi.FailedPrecondition, "workload "+id+" has ended")
	}
	answer, err := run(id, c)
	if err != nil {
		return nil, err
	}
	return answer, nil
}
