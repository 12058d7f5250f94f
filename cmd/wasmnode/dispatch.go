package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/posener/complete"
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

// dispatcher runs the command that a command line names.
type dispatcher struct {
	name     string
	version  string
	commands map[string]subcommand // by their words, a space between them
	aliases  map[string]string     // one word for several
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
	if long := d.aliases[words[0]]; d.commands[long] != nil {
		return long, d.commands[long], words[1:]
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
	text := fmt.Sprintf("Usage: %s [--version] [--help] <command> [<args>]\n\nAvailable commands are:\n%s\n", d.name, d.list(""))
	if short := d.short(); short != "" {
		text += "\nShort for others:\n" + short + "\n"
	}
	return text
}

// short lists the aliases, a line each.
func (d *dispatcher) short() string {
	var lines []string
	for _, alias := range slices.Sorted(maps.Keys(d.aliases)) {
		if long := d.aliases[alias]; d.commands[long] != nil {
			lines = append(lines, fmt.Sprintf("    %-14s    %s", alias, long))
		}
	}
	return strings.Join(lines, "\n")
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
