package main

import (
	"fmt"
	"os"
	"regexp"
)

type jobInitCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobInitCommand) Synopsis() string { return "Write an example of a job file" }

// Help implements [subcommand].
func (*jobInitCommand) Help() string {
	return `Usage: wasmnode job init [options] [FILE]

  Writes a job file to begin with, example.nomad.hcl. A file that is there stays as it
  is.

Options:

  -short   Write no comments.`
}

const exampleJob = `# A service of two that says hello. "wasmnode job run" runs it.
job "example" {
  type = "service" # or batch, system, sysbatch

  # How a new version takes the place of an old one: one after another, and back if it fails.
  update {
    max_parallel     = 1
    min_healthy_time = "5s"
    auto_revert      = true
  }

  # What runs together, so many times.
  group "hello" {
    count = 2

    # What becomes of a task that fails.
    restart {
      attempts = 2
      interval = "30m"
      delay    = "15s"
      mode     = "fail"
    }

    task "greeter" {
      # A driver of "wasmnode plugin status". This one has to be granted its commands:
      # plugin "raw_exec" { grant { process { commands = ["/bin/sh"] } } }
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do echo \"Hello, $NAME\"; sleep 10; done"]
      }

      env {
        NAME = "world"
      }

      # What it is given of the node: MHz and MB.
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
`

// comments are lines of nothing else, and ends of lines.
var comments = regexp.MustCompile(`(?m)^ *#.*\n| +# .*$`)

// Run implements [subcommand].
func (c *jobInitCommand) Run(args []string) int {
	f := c.flags("job init")
	short := f.Bool("short", false, "")
	if !c.parse(f, args, 0, 1, c.Help()) {
		return 1
	}
	name, content := "example.nomad.hcl", exampleJob
	if f.NArg() == 1 {
		name = f.Arg(0)
	}
	if *short {
		content = comments.ReplaceAllString(content, "")
	}
	out, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if os.IsExist(err) {
		return c.fail(f, fmt.Errorf("Job '%s' already exists", name)) //nolint:staticcheck // as in Nomad
	}
	if err != nil {
		return c.fail(f, err)
	}
	defer out.Close()
	if _, err := out.WriteString(content); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output("Example job file written to " + name)
	return 0
}
