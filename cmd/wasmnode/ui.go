package main

import (
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/wasmnode/wasmnode/internal/plaintext"
)

// ui is how commands talk to people. What they say has texts of plugins, jobs and tasks in
// it, such as the answer to a check: these cannot drive a terminal.
type ui struct {
	out, err io.Writer
	// Whether what is written may be coloured.
	outColour, errColour bool
}

// The colours, as ECMA-48 has them.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// newUI returns the terminal's, for a command line.
func newUI(out, err *os.File, args []string) ui {
	return ui{
		out: out, err: err,
		outColour: wantsColour(args, os.Getenv, term.IsTerminal(int(out.Fd()))),
		errColour: wantsColour(args, os.Getenv, term.IsTerminal(int(err.Fd()))),
	}
}

// wantsColour reports whether a stream is coloured: a terminal is, unless somebody says no,
// and anything else is not, unless somebody says yes. The command line has the last word.
func wantsColour(args []string, getenv func(string) string, terminal bool) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	says := func(flag string) bool { return slices.Contains(args, "-"+flag) || slices.Contains(args, "--"+flag) }
	switch {
	case says("no-color"):
		return false
	case says("force-color"):
		return true
	case getenv("NO_COLOR") != "", getenv("NOMAD_CLI_NO_COLOR") != "", getenv("TERM") == "dumb":
		return false
	}
	return terminal || getenv("NOMAD_CLI_FORCE_COLOR") != ""
}

// Output prints what was asked for. One line after an empty one is a heading.
func (u ui) Output(text string) {
	heading, is := strings.CutPrefix(text, "\n")
	if is && u.outColour && heading != "" && !strings.Contains(heading, "\n") {
		printLine(u.out, "\n"+bold+harmless(heading)+plain)
		return
	}
	printLine(u.out, harmless(text))
}

// Warn prints what should be looked at.
func (u ui) Warn(text string) { u.complain(yellow, text) }

// Error prints why something was not done.
func (u ui) Error(text string) { u.complain(red, text) }

// Quote prints what a complaint is about.
func (u ui) Quote(text string) { printLine(u.err, harmless(text)) }

func (u ui) complain(colour, text string) {
	text = harmless(text)
	if u.errColour {
		text = colour + text + plain
	}
	printLine(u.err, text)
}

// printLine writes a line; nobody is told when nobody reads.
func printLine(w io.Writer, line string) { _, _ = io.WriteString(w, line+"\n") }

// harmless escapes control characters, but for the ends of lines.
func harmless(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = plaintext.Line(l, len(l))
	}
	return strings.Join(lines, "\n")
}
