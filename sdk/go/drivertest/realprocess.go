package drivertest

import (
	"cmp"
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/process"
	"github.com/wasmnode/wasmnode/sdk/go/workload"
)

// realProcess is a process of this machine that a driver started.
type realProcess struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended and that is known
}

// leftTime is how long what a process started may hold its output when that has ended.
const leftTime = time.Second

// RunProcesses has the processes that the driver starts from now on run on this machine: those
// without isolation, as the test's own user; others fail. What a task's own process writes is among
// [Node.Stdout] and Stderr; a workload ends when its process does. What runs at the end of the
// test, or when its task is destroyed, is killed with what it started.
func (n *core) RunProcesses() {
	n.records.mu.Lock()
	defer n.records.mu.Unlock()
	if n.records.real == nil {
		n.records.real = map[string]*realProcess{}
		n.t.Cleanup(func() { n.records.kill("") })
	}
}

// AwaitWorkload returns how a workload of the driver's ended, once its process has: the task's own
// has the task's ID, one beside it that with a slash and its name. The test fails when there is none.
func (n *core) AwaitWorkload(id string) *workload.Result {
	n.t.Helper()
	n.records.mu.Lock()
	p := n.records.real[id]
	n.records.mu.Unlock()
	if p == nil {
		n.t.Fatalf("drivertest: no process was run as the workload %s", id)
	}
	select {
	case <-p.done:
	case <-time.After(callTimeout):
		n.t.Fatalf("drivertest: workload %s runs for longer than %v", id, callTimeout)
	}
	n.records.mu.Lock()
	defer n.records.mu.Unlock()
	return n.records.workloads.ended[id]
}

// kill kills the processes of a task, "" of all, and waits for their ends.
func (r *records) kill(taskID string) {
	r.mu.Lock()
	var killed []*realProcess
	for id, p := range r.real {
		if taskID == "" || id == taskID || strings.HasPrefix(id, taskID+"/") {
			killed = append(killed, p)
		}
	}
	r.mu.Unlock()
	for _, p := range killed {
		if !p.await(0) {
			_ = signalGroup(p.cmd, "SIGKILL") // it may have ended
		}
		<-p.done
	}
}

// runProcess runs a process as a workload. The caller holds mu.
func (h *callHost) runProcess(id string, c *process.Command) error {
	dirs := h.dirs[h.taskID]
	switch {
	case c.Isolation != process.IsolationNone:
		return abi.NewError(abi.Unimplemented, "start: a test runs processes without isolation only")
	case c.User != "":
		return abi.NewError(abi.Unimplemented, "start: a test runs processes as its own user only")
	case dirs == nil:
		return abi.NewError(abi.FailedPrecondition, "start: the task is none of Node.Task")
	}
	command, err := lookUp(c.Command, dirs)
	if err != nil {
		return err
	}
	cmd := exec.Command(command, c.Args...)
	cmd.Dir = cmp.Or(c.Dir, dirs.Task)
	if !filepath.IsAbs(cmd.Dir) {
		cmd.Dir = filepath.Join(dirs.Task, cmd.Dir)
	}
	cmd.Env = []string{} // nothing of the test's
	for name, value := range c.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if id == h.taskID {
		cmd.Stdout, cmd.Stderr = &processOutput{h.records, 1}, &processOutput{h.records, 2}
	}
	cmd.WaitDelay = leftTime
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return abi.NewError(startCode(err), "start: "+err.Error())
	}
	p := &realProcess{cmd, make(chan struct{})}
	h.real[id] = p
	go h.reap(id, p)
	return nil
}

// startCode is the code for why a process was not started.
func startCode(err error) abi.Code {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return abi.NotFound
	case errors.Is(err, fs.ErrPermission):
		return abi.PermissionDenied
	}
	return abi.Internal
}

// lookUp finds a command where a node does.
func lookUp(command string, dirs *wasmnodev1.TaskDirectories) (string, error) {
	switch {
	case filepath.IsAbs(command):
		return command, nil
	case strings.ContainsRune(command, '/'):
		return filepath.Join(dirs.Task, command), nil
	}
	for _, dir := range []string{dirs.Local, dirs.Task} {
		if path, err := exec.LookPath(filepath.Join(dir, command)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(command)
	if err != nil {
		return "", abi.NewError(abi.NotFound, "start: command "+command+" is not on the PATH")
	}
	return path, nil
}

// reap waits for a process, and has its workload end.
func (r *records) reap(id string, p *realProcess) {
	defer close(p.done)
	_ = p.cmd.Wait() // its state says how it ended
	_ = signalGroup(p.cmd, "SIGKILL")
	result := resultOf(p.cmd)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workloads.put(id, result)
}

// processOutput is what a task's process writes.
type processOutput struct {
	records *records
	stream  int
}

// Write implements [io.Writer].
func (o *processOutput) Write(p []byte) (int, error) {
	o.records.mu.Lock()
	defer o.records.mu.Unlock()
	return o.records.outputs[o.stream].Write(p)
}

// askReal does what is asked of a workload that is a process of this machine. Neither an answer nor
// an error: that is answered as where nothing runs.
func (h *callHost) askReal(id string, p *realProcess, request message) (message, error) {
	switch r := request.(type) {
	case *wasmnodev1.WorkloadSignalRequest:
		h.noteSignal(id, r.Signal)
		if err := signalGroup(p.cmd, r.Signal); err != nil {
			return nil, err
		}
		return &wasmnodev1.WorkloadSignalResponse{}, nil
	case *wasmnodev1.WorkloadStopRequest:
		signal := cmp.Or(r.Signal, "SIGINT")
		h.noteSignal(id, signal)
		if err := signalGroup(p.cmd, signal); err != nil {
			return nil, err
		}
		if !p.await(r.TimeoutMs) {
			_ = signalGroup(p.cmd, "SIGKILL") // it may have ended
			<-p.done
		}
		return &wasmnodev1.WorkloadStopResponse{}, nil
	case *wasmnodev1.WorkloadWaitRequest:
		p.await(r.TimeoutMs)
		h.mu.Lock()
		defer h.mu.Unlock()
		return &wasmnodev1.WorkloadWaitResponse{Result: h.workloads.ended[id]}, nil
	}
	return nil, nil
}

// await reports whether a process has ended within so many milliseconds; negative: as many as
// a call may take.
func (p *realProcess) await(ms int64) bool {
	patience := time.Duration(ms) * time.Millisecond
	if ms < 0 || patience > callTimeout {
		patience = callTimeout
	}
	select {
	case <-p.done: // also without patience
		return true
	default:
	}
	select {
	case <-p.done:
		return true
	case <-time.After(patience):
		return false
	}
}

func (h *callHost) noteSignal(id, signal string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.workloads.signals = append(h.workloads.signals, WorkloadSignal{id, signal})
}
