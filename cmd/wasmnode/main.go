// Command wasmnode is the node agent and the command line that talks to it. Each
// command is one file; what a library user would want is in the packages below.
package main

import (
	"fmt"
	"os"

	"github.com/hashicorp/cli"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/workload/process/isolate"
)

func main() {
	isolate.Enter() // does not return in a process that is to become an isolated task
	os.Exit(run(os.Args[1:]))
}

// noSuchCommand is the exit code that shells have for it.
const noSuchCommand = 127

// run runs one command and returns its exit code: 0 done, 1 failed, 2 a job was
// registered but not all of it could be placed, 127 no such command.
func run(args []string) int {
	ui := &cli.BasicUi{Reader: os.Stdin, Writer: os.Stdout, ErrorWriter: os.Stderr}
	c := cli.NewCLI("wasmnode", agent.Version)
	c.Args = args
	c.Commands = commands(ui)
	c.HelpWriter, c.ErrorWriter = os.Stdout, os.Stderr
	if word := c.Subcommand(); word != "" && c.Commands[word] == nil && !c.IsHelp() && !c.IsVersion() {
		ui.Error(fmt.Sprintf("Error: there is no command %q: wasmnode -h lists them", word))
		return noSuchCommand
	}
	code, err := c.Run()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// commands are all that there are, by name.
func commands(ui cli.Ui) map[string]cli.CommandFactory {
	m := meta{ui: ui}
	group := func(name, synopsis string) cli.Command { return &groupCommand{m, name, synopsis} }
	all := map[string]cli.Command{
		"agent":          &agentCommand{m},
		"supervisor":     &supervisorCommand{m},
		"alloc":          group("alloc", "Allocations: what runs where"),
		"alloc exec":     &allocExecCommand{m},
		"alloc fs":       &allocFSCommand{m},
		"alloc logs":     &allocLogsCommand{m},
		"alloc restart":  &allocRestartCommand{m},
		"alloc signal":   &allocSignalCommand{m},
		"alloc status":   &allocStatusCommand{m},
		"alloc stop":     &allocStopCommand{m},
		"eval":           group("eval", "Evaluations: what the scheduler decided"),
		"eval status":    &evalStatusCommand{m},
		"job":            group("job", "Jobs: what is to run"),
		"job allocs":     &jobAllocsCommand{m},
		"job inspect":    &jobInspectCommand{m},
		"job run":        &jobRunCommand{m},
		"job status":     &jobStatusCommand{m},
		"job stop":       &jobStopCommand{m},
		"job validate":   &jobValidateCommand{m},
		"node":           group("node", "This node"),
		"node status":    &nodeStatusCommand{m},
		"plugin":         group("plugin", "Plugins: drivers in WebAssembly"),
		"plugin inspect": &pluginInspectCommand{m},
		"plugin status":  &pluginStatusCommand{m},
		"status":         &jobStatusCommand{m},
		"system":         group("system", "The node as a whole"),
		"system gc":      &systemGCCommand{m},
		"version":        &versionCommand{m},
	}
	factories := map[string]cli.CommandFactory{}
	for name, command := range all {
		factories[name] = func() (cli.Command, error) { return command, nil }
	}
	return factories
}

// groupCommand is a word that only other commands follow.
type groupCommand struct {
	meta
	name, synopsis string
}

// Help implements [cli.Command].
func (g *groupCommand) Help() string {
	return fmt.Sprintf("Usage: wasmnode %s <subcommand> [options] [args]\n\n  %s.", g.name, g.synopsis)
}

// Synopsis implements [cli.Command].
func (g *groupCommand) Synopsis() string { return g.synopsis }

// Run implements [cli.Command].
func (g *groupCommand) Run(args []string) int {
	if len(args) == 0 {
		return cli.RunResultHelp
	}
	g.ui.Error(fmt.Sprintf("Error: there is no command %q: wasmnode %s -h lists them", g.name+" "+args[0], g.name))
	return noSuchCommand
}
