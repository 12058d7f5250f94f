package main

import (
	"fmt"
	"os"
)

type varInitCommand struct{ meta }

// Synopsis implements [subcommand].
func (*varInitCommand) Synopsis() string { return "Write an example of a variable's file" }

// Help implements [subcommand].
func (*varInitCommand) Help() string {
	return `Usage: wasmnode var init [options] [FILE]

  Writes an example of a variable's file, spec.nv.hcl or spec.nv.json, which only its
  owner may read. A file that is there stays as it is.

Options:

  -out=FORM   hcl or json.
  -quiet      Do not say what was written.`
}

const exampleVariable = `# Where the variable is. "wasmnode var put PATH @FILE" puts it elsewhere.
path = "path/to/variable"

# What is sealed, all of it together. A template names a key without dots and dashes
# more easily.
items {
  key1 = "value 1"
  key2 = "value 2"
}
`

const exampleVariableJSON = `{
  "Namespace": "default",
  "Path": "path/to/variable",
  "Items": {
    "key1": "value 1",
    "key2": "value 2"
  }
}
`

// Run implements [subcommand].
func (c *varInitCommand) Run(args []string) int {
	f := c.flags("var init")
	form, quiet := f.String("out", "hcl", ""), f.Bool("quiet", false, "")
	if !c.parse(f, args, 0, 1, c.Help()) {
		return 1
	}
	name, content := "spec.nv.hcl", exampleVariable
	switch *form {
	case "hcl":
	case "json":
		name, content = "spec.nv.json", exampleVariableJSON
	default:
		return c.fail(f, fmt.Errorf("-out %q is neither hcl nor json", *form))
	}
	if f.NArg() == 1 {
		name = f.Arg(0)
	}
	out, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if os.IsExist(err) {
		return c.fail(f, fmt.Errorf("File %q already exists", name)) //nolint:staticcheck // as in Nomad
	}
	if err != nil {
		return c.fail(f, err)
	}
	defer out.Close()
	if _, err := out.WriteString(content); err != nil {
		return c.fail(f, err)
	}
	if !*quiet {
		c.ui.Output("Example variable specification written to " + name)
	}
	return 0
}
