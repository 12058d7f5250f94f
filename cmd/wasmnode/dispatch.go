package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/posener/complete"
	"github.com/posener/complete/cmd/install"

	"github.com/wasmnode/wasmnode/internal/plaintext"
)

// subcommand is one of the command line's.
type subcommand interface {
	// Help is the usage, beginning with "Usage: ".
	Help() string
	// Synopsis is one line for lists of commands.
	Synopsis() string
	// Run runs the command and returns its exit code, or [misused].
	Run(args []string) int
}

// misused has a command's help printed: it was not used as it has to be.
const misused = -1

// noSuchCommand is the exit code that shells have for it.
const noSuchCommand = 127

// ui is how commands talk to people. What they say has texts of plugins, jobs and tasks in
// it, such as the answer to a check: these cannot drive a terminal.
type ui struct{ out, err io.Writer }

// Output prints what was asked for.
func (u ui) Output(text string) { fmt.Fprintln(u.out, harmless(text)) }

// Warn prints what should be looked at.
func (u ui) Warn(text string) { u.Error(text) }

// Error prints why something was not done.
func (u ui) Error(text string) { fmt.Fprintln(u.err, harmless(text)) }

// harmless escapes control characters, but for the ends of lines.
func harmless(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = plaintext.Line(l, len(l))
	}
	return strings.Join(lines, "\n")
}

// dispatcher runs the command that a command line names.
type dispatcher struct {
	name     string
	version  string
	commands map[string]subcommand // by their words, a space between them
	ui       ui
}

// commandLine is a command line, taken apart.
type commandLine struct {
	word string     // the command's words, or the first that is not one; empty: none
	cmd  subcommand // nil: there is none of that name
	args []string   // what follows
	// What comes before the command, but for help, which may be anywhere.
	help, version, install, uninstall bool
	otherFlags                        bool
}

// parse takes a command line apart. The longest name of a command is the one that counts.
func (d *dispatcher) parse(args []string) (l commandLine) {
	for i, arg := range args {
		switch arg {
		case "--":
			return l
		case "-h", "-help", "--help":
			l.help = true
			continue
		case "-autocomplete-install", "--autocomplete-install":
			l.install = true
			continue
		case "-autocomplete-uninstall", "--autocomplete-uninstall":
			l.uninstall = true
			continue
		}
		switch {
		case l.word != "" || arg == "":
		case arg == "-v" || arg == "-version" || arg == "--version":
			l.version = true
		case arg[0] == '-':
			l.otherFlags = true
		default:
			l.word, l.cmd, l.args = d.find(args[i:])
		}
	}
	return l
}

// find returns the longest command that the words begin with, or the first word when
// there is none, and what follows. A word with a space in it is an argument.
func (d *dispatcher) find(words []string) (name string, cmd subcommand, rest []string) {
	end := slices.IndexFunc(words, func(w string) bool { return strings.Contains(w, " ") })
	if end < 0 {
		end = len(words)
	}
	for n := end; n > 0; n-- {
		name = strings.Join(words[:n], " ")
		if cmd = d.commands[name]; cmd != nil {
			return name, cmd, words[n:]
		}
	}
	return words[0], nil, words[1:]
}

// run runs the command that the arguments name and returns its exit code.
func (d *dispatcher) run(args []string) int {
	if complete.New(d.name, d.completion()).Complete() {
		return 0
	}
	l := d.parse(args)
	switch {
	case l.version:
		d.ui.Output(d.version)
		return 0
	case l.help && l.word == "":
		d.ui.Output(d.help())
		return 0
	case l.install || l.uninstall:
		return d.setUpCompletion(l)
	case l.cmd == nil && (l.word == "" || l.help):
		d.ui.Error(d.help())
		return noSuchCommand
	case l.cmd == nil:
		d.ui.Error(fmt.Sprintf("Error: unknown command %q: %s -h lists them", l.word, d.name))
		return noSuchCommand
	case l.help:
		d.ui.Output(d.commandHelp(l.word))
		return 0
	case l.otherFlags:
		d.ui.Error("Error: options come after the command\n\n" + d.commandHelp(l.word))
		return 1
	}
	code := l.cmd.Run(l.args)
	if code == misused {
		d.ui.Error(d.commandHelp(l.word))
		return 1
	}
	return code
}

// help lists the commands.
func (d *dispatcher) help() string {
	return fmt.Sprintf("Usage: %s [--version] [--help] <command> [<args>]\n\nAvailable commands are:\n%s\n", d.name, d.list(""))
}

// commandHelp is a command's help, with the commands that begin with its name.
func (d *dispatcher) commandHelp(name string) string {
	text := d.commands[name].Help()
	if list := d.list(name); list != "" {
		text += "\n\nSubcommands:\n" + list
	}
	return text
}

// below returns the last words of the commands one level below another; "": the first
// level.
func (d *dispatcher) below(parent string) (words []string) {
	for _, name := range slices.Sorted(maps.Keys(d.commands)) {
		word, is := name, parent == ""
		if !is {
			word, is = strings.CutPrefix(name, parent+" ")
		}
		if is && !strings.Contains(word, " ") {
			words = append(words, word)
		}
	}
	return words
}

// list lists the commands one level below another, a line each.
func (d *dispatcher) list(parent string) string {
	words := d.below(parent)
	longest := 0
	for _, w := range words {
		longest = max(longest, len(w))
	}
	lines := make([]string, len(words))
	for i, w := range words {
		lines[i] = fmt.Sprintf("    %-*s    %s", longest, w, d.commands[strings.TrimSpace(parent+" "+w)].Synopsis())
	}
	return strings.Join(lines, "\n")
}

// completion is what shells complete.
func (d *dispatcher) completion() complete.Command {
	root := d.completionOf("")
	root.Flags = complete.Flags{}
	for _, flag := range []string{"-autocomplete-install", "-autocomplete-uninstall", "-help", "-version"} {
		root.Flags[flag] = complete.PredictNothing
	}
	return root
}

func (d *dispatcher) completionOf(parent string) complete.Command {
	c := complete.Command{}
	for _, word := range d.below(parent) {
		if c.Sub == nil {
			c.Sub = complete.Commands{}
		}
		c.Sub[word] = d.completionOf(strings.TrimSpace(parent + " " + word))
	}
	return c
}

// setUpCompletion adds completion to the shells' files of the user, or removes it.
func (d *dispatcher) setUpCompletion(l commandLine) int {
	change := install.Install
	switch {
	case l.install && l.uninstall:
		d.ui.Error("Error: completion can be installed or uninstalled, not both")
		return 1
	case l.uninstall:
		change = install.Uninstall
	}
	if err := change(d.name); err != nil {
		d.ui.Error("Error: " + err.Error())
		return 1
	}
	return 0
}
