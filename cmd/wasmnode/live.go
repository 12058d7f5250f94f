package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// live is some lines at the end of a terminal that are drawn again when they change. What
// is written goes above them. It is for one goroutine.
type live struct {
	out   io.Writer
	width func() int // of the terminal, in characters
	text  string
	drawn int // lines
}

// liveOn returns a live text at the end of a stream; nil: the stream is no terminal that can.
func liveOn(out io.Writer) *live {
	file, is := out.(*os.File)
	if !is || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &live{out: out, width: func() int {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
		return 80
	}}
}

// Write writes above the text. It implements [io.Writer].
func (l *live) Write(p []byte) (int, error) {
	n, err := io.WriteString(l.out, l.clear()+string(p)+l.draw())
	return min(n, len(p)), err
}

// set changes the text. Its lines are cut where the terminal ends.
func (l *live) set(text string) {
	if text == l.text {
		return
	}
	clear := l.clear()
	l.text = text
	_, _ = io.WriteString(l.out, clear+l.draw())
}

// clear is what takes the text off the terminal.
func (l *live) clear() string {
	if l.drawn == 0 {
		return ""
	}
	up := fmt.Sprintf("\x1b[%dA\x1b[J", l.drawn) // of ECMA-48: up so many lines, erase what follows
	l.drawn = 0
	return up
}

// draw is what puts the text onto the terminal.
func (l *live) draw() string {
	if l.text == "" {
		return ""
	}
	lines := strings.Split(harmless(l.text), "\n")
	for i, line := range lines {
		if runes := []rune(line); len(runes) > l.width() {
			lines[i] = string(runes[:l.width()])
		}
	}
	l.drawn = len(lines)
	return strings.Join(lines, "\n") + "\n"
}
