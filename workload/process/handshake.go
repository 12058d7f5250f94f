package process

import (
	"os"

	"github.com/wasmnode/wasmnode/workload/process/isolate"
)

// execHandshake is the pair of pipes over which a process that was forked is sent what to
// isolate and execute, and reports why it cannot.
type execHandshake struct {
	spec, report           *os.File // this process's ends
	childSpec, childReport *os.File // those of the new process
}

func newExecHandshake() (*execHandshake, error) {
	childSpec, spec, err := os.Pipe()
	if err != nil {
		return nil, noFiles(err)
	}
	report, childReport, err := os.Pipe()
	if err != nil {
		_, _ = childSpec.Close(), spec.Close() // nothing was written to them
		return nil, noFiles(err)
	}
	return &execHandshake{spec: spec, report: report, childSpec: childSpec, childReport: childReport}, nil
}

// files are the ends that the new process is forked with, in the order in which package
// isolate looks for them.
func (h *execHandshake) files() []uintptr {
	return []uintptr{h.childSpec.Fd(), h.childReport.Fd()}
}

// forked closes the new process's ends here, so that its end is seen at ours.
func (h *execHandshake) forked() {
	_, _ = h.childSpec.Close(), h.childReport.Close() // nothing was written to them
}

// send sends the process what to execute, and returns when it has executed the command, or
// why it has not.
func (h *execHandshake) send(s *isolate.Spec) error {
	return isolate.Send(h.spec, h.report, s)
}

func (h *execHandshake) close() {
	_, _ = h.spec.Close(), h.report.Close() // what was written was read, or never will be
}
