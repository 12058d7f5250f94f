// Command wasmnode is the node agent and the command line that talks to it. Each
// command is one file; what a library user would want is in the packages below.
package main

import (
	"os"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/jobspec"
	"github.com/wasmnode/wasmnode/sandbox"
)

func main() {
	sandbox.EnterCompiler() // does not return in a process that compiles a module
	jobspec.EnterParser()   // nor this in one that reads a job file of somebody else's
	os.Exit(run(os.Args[1:]))
}

// run runs one command and returns its exit code: 0 done, 1 failed, 2 a job was
// registered but not all of it could be placed, 127 no such command.
func run(args []string) int {
	terminal := newUI(os.Stdout, os.Stderr, args)
	d := &dispatcher{name: "wasmnode", version: agent.Version, commands: commands(meta{ui: terminal, running: new(running)}), aliases: aliases, ui: terminal}
	return d.run(args)
}
