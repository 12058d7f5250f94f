// Command wasmnode is the node agent and the command line that talks to it. Each
// command is one file; what a library user would want is in the packages below.
package main

import (
	"fmt"
	"os"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/workload/process/isolate"
)

func main() {
	isolate.Enter()         // does not return in a process that is to become an isolated task
	sandbox.EnterCompiler() // nor this in one that compiles a module
	os.Exit(run(os.Args[1:]))
}

// run runs one command and returns its exit code: 0 done, 1 failed, 2 a job was
// registered but not all of it could be placed, 127 no such command.
func run(args []string) int {
	terminal := ui{out: os.Stdout, err: os.Stderr}
	d := &dispatcher{name: "wasmnode", version: agent.Version, commands: commands(terminal), ui: terminal}
	return d.run(args)
}

// commands are all that there are, by name.
func commands(terminal ui) map[string]subcommand {
	m := meta{ui: terminal}
	group := func(name, synopsis string) subcommand { return &groupCommand{m, name, synopsis} }
	return map[string]subcommand{
		"agent":                     &agentCommand{m},
		"acl":                       group("acl", "Access: who may use the API"),
		"acl bootstrap":             &aclBootstrapCommand{m},
		"acl token":                 group("acl token", "Tokens: what lets somebody in"),
		"acl token create":          &aclTokenCreateCommand{m},
		"acl token delete":          &aclTokenDeleteCommand{m},
		"acl token info":            &aclTokenInfoCommand{m},
		"acl token list":            &aclTokenListCommand{m},
		"acl token self":            &aclTokenSelfCommand{m},
		"alloc":                     group("alloc", "Allocations: what runs where"),
		"alloc checks":              &allocChecksCommand{m},
		"alloc exec":                &allocExecCommand{m},
		"alloc fs":                  &allocFSCommand{m},
		"alloc logs":                &allocLogsCommand{m},
		"alloc restart":             &allocRestartCommand{m},
		"alloc signal":              &allocSignalCommand{m},
		"alloc status":              &allocStatusCommand{m},
		"alloc stop":                &allocStopCommand{m},
		"eval":                      group("eval", "Evaluations: what the scheduler decided"),
		"eval status":               &evalStatusCommand{m},
		"job":                       group("job", "Jobs: what is to run"),
		"job allocs":                &jobAllocsCommand{m},
		"job inspect":               &jobInspectCommand{m},
		"job run":                   &jobRunCommand{m},
		"job status":                &jobStatusCommand{m},
		"job stop":                  &jobStopCommand{m},
		"job validate":              &jobValidateCommand{m},
		"node":                      group("node", "This node"),
		"node status":               &nodeStatusCommand{m},
		"operator":                  group("operator", "What only a person can decide: what is unclaimed, and snapshots"),
		"operator adopt":            &operatorAdoptCommand{m},
		"operator discard":          &operatorDiscardCommand{m},
		"operator snapshot":         group("operator snapshot", "Save and restore the state of the control plane"),
		"operator snapshot inspect": &operatorSnapshotInspectCommand{m},
		"operator snapshot restore": &operatorSnapshotRestoreCommand{m},
		"operator snapshot save":    &operatorSnapshotSaveCommand{m},
		"plugin":                    group("plugin", "Plugins: drivers in WebAssembly"),
		"plugin inspect":            &pluginInspectCommand{m},
		"plugin status":             &pluginStatusCommand{m},
		"status":                    &jobStatusCommand{m},
		"supervisor":                &supervisorCommand{m},
		"system":                    group("system", "The node as a whole"),
		"system gc":                 &systemGCCommand{m},
		"version":                   &versionCommand{m},
	}
}

// groupCommand is a word that only other commands follow.
type groupCommand struct {
	meta
	name, synopsis string
}

// Help implements [subcommand].
func (g *groupCommand) Help() string {
	return fmt.Sprintf("Usage: wasmnode %s <subcommand> [options] [args]\n\n  %s.", g.name, g.synopsis)
}

// Synopsis implements [subcommand].
func (g *groupCommand) Synopsis() string { return g.synopsis }

// Run implements [subcommand].
func (g *groupCommand) Run(args []string) int {
	if len(args) == 0 {
		return misused
	}
	g.ui.Error(fmt.Sprintf("Error: unknown command %q: wasmnode %s -h lists them", g.name+" "+args[0], g.name))
	return noSuchCommand
}
