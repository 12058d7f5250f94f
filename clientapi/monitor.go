package clientapi

import (
	"context"
	"fmt"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/workload/logfile"
)

// monitorLines is how many lines of the log a client may be behind; further ones are lost to
// it, and it is told how many.
const monitorLines = 512

// LogSinks is where lines of the log can be had from, as they are written.
type LogSinks interface {
	RegisterSink(sink hclog.SinkAdapter)
	DeregisterSink(sink hclog.SinkAdapter)
}

// MonitorOptions are which lines of the log are sent, and in which form.
func MonitorOptions(level string, json, location bool) (*hclog.LoggerOptions, error) {
	if level == "" {
		level = "INFO"
	}
	opts := &hclog.LoggerOptions{Name: "wasmnode", Level: hclog.LevelFromString(level), JSONFormat: json, IncludeLocation: location}
	if opts.Level == hclog.NoLevel {
		return nil, invalid("Unknown log level: %s", level)
	}
	return opts, nil
}

// Monitor sends the agent's log from now on, until ctx is done or the client is gone, which is
// no error.
func Monitor(ctx context.Context, logs LogSinks, opts *hclog.LoggerOptions, to *Frames) {
	lines := &logLines{lines: make(chan []byte, monitorLines)}
	opts.Output = lines
	adapter := hclog.NewSinkAdapter(opts)
	logs.RegisterSink(adapter)
	defer logs.DeregisterSink(adapter)
	if to.Open() != nil {
		return
	}
	defer to.Heartbeats(ctx)()
	for {
		select {
		case <-ctx.Done():
			return
		case line := <-lines.lines:
			if lost := lines.takeLost(); lost > 0 {
				line = append(fmt.Appendf(nil, "[WARN] monitor: %d lines are lost: they are not read as fast as they are written\n", lost), line...)
			}
			if to.Send(logfile.Chunk{Data: line}) != nil {
				return
			}
		}
	}
}

// logLines takes the lines of a log for one client. Whoever logs never waits for it.
type logLines struct {
	lines chan []byte // monitorLines
	mu    sync.Mutex
	lost  int
}

// Write implements [io.Writer]: one line a call.
func (l *logLines) Write(line []byte) (int, error) {
	select {
	case l.lines <- append([]byte(nil), line...):
	default:
		l.mu.Lock()
		l.lost++
		l.mu.Unlock()
	}
	return len(line), nil
}

func (l *logLines) takeLost() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.lost
	l.lost = 0
	return n
}
