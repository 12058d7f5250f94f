package main

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/api/contexts"
	"github.com/posener/complete"
	"github.com/posener/complete/cmd/install"
)

// completion is what shells complete: the words of the commands, their options and what
// they are about.
func (d *dispatcher) completion() complete.Command {
	root := d.completionOf("")
	root.Flags = complete.Flags{}
	for _, flag := range []string{"-autocomplete-install", "-autocomplete-uninstall", "-help", "-version"} {
		root.Flags[flag] = complete.PredictNothing
	}
	for short, long := range d.aliases {
		if d.commands[long] != nil {
			root.Sub[short] = d.completionOf(long)
		}
	}
	return root
}

func (d *dispatcher) completionOf(name string) complete.Command {
	c := complete.Command{}
	for _, word := range d.below(name) {
		if c.Sub == nil {
			c.Sub = complete.Commands{}
		}
		c.Sub[word] = d.completionOf(strings.TrimSpace(name + " " + word))
	}
	if cmd := d.commands[name]; cmd != nil && c.Sub == nil {
		help := cmd.Help()
		c.Flags, c.Args = optionsOf(help), argumentOf(help)
	}
	return c
}

// option is an option in a help text, which begins a line or follows another, and has a
// value where an equals sign is behind it.
var option = regexp.MustCompile(`(?m)(?:^ {2,}|^ {2,}-.*?, )-([a-zA-Z][a-z0-9-]*)(=[^\s,]+)?`)

// optionsOf are the options that a help text tells of.
func optionsOf(help string) complete.Flags {
	flags := complete.Flags{"-help": complete.PredictNothing}
	for line := range strings.Lines(help) {
		for rest := line; ; {
			m := option.FindStringSubmatchIndex(rest)
			if m == nil {
				break
			}
			name, value := rest[m[2]:m[3]], ""
			if m[4] >= 0 {
				value = rest[m[4]+1 : m[5]]
			}
			flags["-"+name] = valueOf(value)
			next, is := strings.CutPrefix(rest[m[1]:], ", ")
			if !is {
				break
			}
			rest = "  " + next
		}
	}
	return flags
}

// valueOf predicts the value of an option.
func valueOf(value string) complete.Predictor {
	switch value {
	case "":
		return complete.PredictNothing
	case "DIR":
		return complete.PredictDirs("*")
	case "FILE":
		return complete.PredictFiles("*")
	}
	return complete.PredictAnything
}

// about is the first thing that a command is about, in the usage of its help text.
var about = regexp.MustCompile(`(?m)\AUsage: .*? \[?([A-Z]+)`)

// found are the kinds of things that a node finds by the beginning of their IDs.
var found = map[string]contexts.Context{
	"JOB": contexts.Jobs, "ALLOC": contexts.Allocs, "EVAL": contexts.Evals, "NODE": contexts.Nodes,
	"DEPLOYMENT": contexts.Deployments, "POOL": contexts.NodePools, "NAMESPACE": contexts.Namespaces,
}

// argumentOf predicts what a command is about; nil: nothing is known of it.
func argumentOf(help string) complete.Predictor {
	m := about.FindStringSubmatch(help)
	switch {
	case m == nil:
		return nil
	case m[1] == "DIR":
		return complete.PredictDirs("*")
	case m[1] == "FILE":
		return complete.PredictFiles("*")
	case found[m[1]] != "":
		return idsOf(found[m[1]])
	}
	return nil
}

// idsOf asks the node that the environment names. Without an answer nothing is completed.
func idsOf(kind contexts.Context) complete.Predictor {
	return complete.PredictFunc(func(a complete.Args) []string {
		if strings.HasPrefix(a.Last, "-") {
			return nil
		}
		client, err := nomad.NewClient(nomad.DefaultConfig())
		if err != nil {
			return nil
		}
		answer, _, err := client.Search().PrefixSearch(a.Last, kind, nil)
		if err != nil {
			return nil
		}
		return answer.Matches[kind]
	})
}

// setUpCompletion adds completion to the shells' files of the user, or removes it, and says
// which of them it changed.
func (d *dispatcher) setUpCompletion(l commandLine) int {
	change, done := install.Install, "installed in"
	switch {
	case l.install && l.uninstall:
		d.ui.Error("Error: completion can be installed or uninstalled, not both")
		return 1
	case l.uninstall:
		change, done = install.Uninstall, "removed from"
	}
	changed, err := changing(shellFiles(d.name), func() error { return change(d.name) })
	for _, file := range changed {
		d.ui.Output(fmt.Sprintf("Completion %s %s", done, file))
	}
	switch {
	case len(changed) > 0 && l.install:
		d.ui.Output("New shells have it: start one")
	case len(changed) > 0:
	case err != nil:
		d.ui.Error("Error: " + strings.Join(strings.Fields(err.Error()), " "))
		return 1
	}
	return 0
}

// changing does something and returns which of some files it changed.
func changing(files []string, do func() error) (changed []string, err error) {
	before := contents(files)
	err = do()
	for i, after := range contents(files) {
		if after != before[i] {
			changed = append(changed, files[i])
		}
	}
	return changed, err
}

// shellFiles are the files that completion may be added to, of bash, zsh and fish.
func shellFiles(name string) []string {
	home := os.Getenv("HOME")
	if u, err := user.Current(); err == nil {
		home = u.HomeDir
	}
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(home, ".config")
	}
	files := []string{filepath.Join(config, "fish", "completions", name+".fish")}
	for _, rc := range []string{".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc"} {
		files = append(files, filepath.Join(home, rc))
	}
	return files
}

// contents are those of files; of one that cannot be read, none.
func contents(files []string) []string {
	list := make([]string, len(files))
	for i, name := range files {
		b, err := os.ReadFile(name)
		if err == nil {
			list[i] = string(b)
		}
	}
	return list
}
