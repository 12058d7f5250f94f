// Package tasklog opens the two logs of a workload, and warns the operator when
// something of them is lost. It knows nothing of what is running. Start reading at
// [Open].
package tasklog

import (
	"io"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/logfile"
)

// Streams take a workload's output. Writing to them never fails before they are
// closed: what cannot be written is dropped.
type Streams struct {
	Stdout io.Writer
	Stderr io.Writer
	close  []func()
}

// Open opens the logs of the workload id. Where they are disabled, everything is
// dropped.
func Open(id string, logs workload.Logs, logger hclog.Logger) (*Streams, error) {
	s := &Streams{Stdout: io.Discard, Stderr: io.Discard}
	if logs.Disabled {
		return s, nil
	}
	logger = logger.With("id", id)
	for _, stream := range []struct {
		path string
		to   *io.Writer
	}{{logs.StdoutPath, &s.Stdout}, {logs.StderrPath, &s.Stderr}} {
		w, err := logfile.OpenReporting(stream.path, logs.MaxFiles, logs.MaxFileBytes, func(err error) {
			logger.Warn("a workload's output is dropped", "log", stream.path, "error", err)
		})
		if err != nil {
			s.Close()
			return nil, err
		}
		s.close = append(s.close, func() {
			_ = w.Close() // what was lost is counted
			if n := w.Dropped(); n > 0 {
				logger.Warn("output of a workload was dropped", "log", stream.path, "bytes", n)
			}
		})
		*stream.to = w
	}
	return s, nil
}

// Close closes the logs. It is idempotent.
func (s *Streams) Close() {
	for _, f := range s.close {
		f()
	}
	s.close = nil
}
