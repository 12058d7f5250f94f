package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"
)

// lines are one stream that several write to, a line at a time. It may be used concurrently.
type lines struct {
	mu   sync.Mutex
	to   io.Writer
	json bool // each line is a [said]
}

// said is a line for programs.
type said struct {
	Time time.Time
	From string // who says it, such as build, plugin, job, grant, or a task; output: the node's log and the like
	Text string // may have several lines
}

// Write implements [io.Writer]: what is written is whole lines.
func (l *lines) Write(p []byte) (int, error) {
	if l.json {
		for line := range strings.Lines(string(p)) {
			l.say("output", strings.TrimSuffix(line, "\n"))
		}
		return len(p), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}

// say writes what somebody says, and when.
func (l *lines) say(who, what string) {
	if !l.json {
		printLine(l, time.Now().Format(time.TimeOnly)+" "+who+"  "+harmless(what))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = json.NewEncoder(l.to).Encode(said{time.Now(), who, what}) // nobody is told when nobody reads
}

// labelledLine is how long a line may get before it is shown in parts.
const labelledLine = 16 << 10

// labelled writes lines with a label before each.
type labelled struct {
	to    *lines
	label string
	begun []byte // of the line that has no end yet
}

// Write implements [io.Writer].
func (l *labelled) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		l.begun = append(l.begun, line...)
		if whole || len(l.begun) > labelledLine {
			l.flush()
		}
		if !whole {
			return n, nil
		}
		p = rest
	}
}

func (l *labelled) flush() {
	l.to.say(l.label, string(l.begun))
	l.begun = nil
}

// end shows a line that has no end.
func (l *labelled) end() {
	if len(l.begun) > 0 {
		l.flush()
	}
}
