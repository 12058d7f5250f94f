package main

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/jobspec"
	"github.com/wasmnode/wasmnode/trial"
)

type jobValidateCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobValidateCommand) Synopsis() string { return "Check a job file" }

// Help implements [subcommand].
func (*jobValidateCommand) Help() string {
	return `Usage: wasmnode job validate [options] FILE

  Reads a job file and has the node check the job, and the node's drivers what their
  tasks are configured with. Every fault is a line that begins with its place in the
  file, "FILE:LINE,COLUMN: "; what is there follows.

  With -plugin-dir no node is needed: the drivers are those in a directory.

Options:

  -plugin-dir=DIR   The drivers are the .wasm files in this directory, and no node is
                    asked. They are loaded, and granted nothing.
  -var=NAME=VALUE   Set a variable of the file; may be given several times.
  -var-file=FILE    Set variables from a file; may be given several times.` + commonOptions
}

// Run implements [subcommand].
func (c *jobValidateCommand) Run(args []string) int {
	f := c.flags("job validate")
	var file jobFile
	file.flags(f)
	dir := f.String("plugin-dir", "", "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	job, _, err := file.read(f.Arg(0))
	if err != nil {
		return c.unreadable(f, &file, err)
	}
	resp, err := c.validate(f, job, *dir)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(resp)
	}
	c.jobWarnings(&file, resp.Warnings)
	if len(resp.ValidationErrors) > 0 {
		return c.invalid(&file, resp.ValidationErrors)
	}
	c.ui.Output("Job validation successful")
	return 0
}

// validate has the node check a job, or does so with the drivers in a directory.
func (c *jobValidateCommand) validate(f *flags, job *nomad.Job, dir string) (*nomad.JobValidateResponse, error) {
	if dir != "" {
		return validateWith(dir, job)
	}
	client, err := c.client(f)
	if err != nil {
		return nil, err
	}
	followNamespace(client, job)
	resp, _, err := client.Jobs().Validate(job, nil)
	return resp, err
}

// validateWith checks a job as a node does that has the drivers in a directory.
func validateWith(dir string, job *nomad.Job) (*nomad.JobValidateResponse, error) {
	drivers, err := trial.OpenDirectory(dir, trial.Config{Logger: hclog.NewNullLogger(), CacheDir: codeDir(), Version: agent.Version})
	if err != nil {
		return nil, fmt.Errorf("-plugin-dir: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), compileTime)
	defer cancel()
	faults, warnings := agent.ValidateJob(job)
	return jobspec.Validation(job, faults, warnings, func(driver string, config map[string]any) ([]string, error) {
		return drivers.CheckDriverConfig(ctx, driver, config)
	}), nil
}
