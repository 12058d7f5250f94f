package main

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// lines are one stream that several write to, a line at a time. It may be used concurrently.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

// Write implements [io.Writer]: what is written is whole lines.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}

// say writes what somebody says, and when.
func (l *lines) say(who, what string) {
	printLine(l, time.Now().Format(time.TimeOnly)+" "+who+"  "+harmless(what))
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
