package main

type jobValidateCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobValidateCommand) Synopsis() string { return "Check a job file" }

// Help implements [subcommand].
func (*jobValidateCommand) Help() string {
	return `Usage: wasmnode job validate [options] FILE

  Reads a job file and has the node check the job. Every fault is a line that begins with
  its place in the file, "FILE:LINE,COLUMN: "; what is there follows.

Options:

  -var=NAME=VALUE   Set a variable of the file; may be given several times.
  -var-file=FILE    Set variables from a file; may be given several times.` + commonOptions
}

// Run implements [subcommand].
func (c *jobValidateCommand) Run(args []string) int {
	f := c.flags("job validate")
	var file jobFile
	file.flags(f)
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	job, _, err := file.read(f.Arg(0))
	if err != nil {
		return c.unreadable(f, &file, err)
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	resp, _, err := client.Jobs().Validate(job, nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(resp)
	}
	if resp.Warnings != "" {
		c.ui.Warn("Job Warnings:\n" + resp.Warnings)
	}
	if len(resp.ValidationErrors) > 0 {
		return c.invalid(&file, resp.ValidationErrors)
	}
	c.ui.Output("Job validation successful")
	return 0
}
