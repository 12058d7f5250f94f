package process

import (
	"os"

	"github.com/wasmnode/wasmnode/workload/process/isolate"
)

// briefing is the pair of pipes over which a process that was forked hears what it is to
// become, and tells why it does not.
type briefing struct {
	spec, report             *os.File // this process's ends
	specTheirs, reportTheirs *os.File // those of the new process
}

func newBriefing() (*briefing, error) {
	specTheirs, spec, err := os.Pipe()
	if err != nil {
		return nil, noFiles(err)
	}
	report, reportTheirs, err := os.Pipe()
	if err != nil {
		_, _ = specTheirs.Close(), spec.Close() // nothing was written to them
		return nil, noFiles(err)
	}
	return &briefing{spec: spec, report: report, specTheirs: specTheirs, reportTheirs: reportTheirs}, nil
}

// files are the ends that the new process is forked with, in the order in which package
// isolate looks for them.
func (b *briefing) files() []uintptr {
	return []uintptr{b.specTheirs.Fd(), b.reportTheirs.Fd()}
}

// handed closes the new process's ends here, so that its end is seen at ours.
func (b *briefing) handed() {
	_, _ = b.specTheirs.Close(), b.reportTheirs.Close() // nothing was written to them
}

// give tells the process what to become, and returns when it has become the command, or
// why it has not.
func (b *briefing) give(become *isolate.Spec) error {
	return isolate.Instruct(b.spec, b.report, become)
}

func (b *briefing) close() {
	_, _ = b.spec.Close(), b.report.Close() // what was written was read, or never will be
}
