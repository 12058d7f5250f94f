package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/wasmnode/wasmnode/internal/configschema"
)

type pluginConfigCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginConfigCommand) Synopsis() string {
	return "Show what a driver gets for a task's config block, without a node"
}

// Help implements [subcommand].
func (*pluginConfigCommand) Help() string {
	return `Usage: wasmnode plugin config [options] FILE

  Reads what is in a config block, as a job file has it, checks it against the schema of
  the driver in a file, fills in the schema's defaults, and prints the JSON that the
  driver gets. What is wrong with it is said in the node's words, a line each. No
  node is needed, and nothing is granted to the driver.

  The exit code is 0 when a node would take the block, else 1.

Options:

  -input=FILE   What is in the block; -, as without: standard input.
  -plugin       The block is the plugin's own, of an agent's configuration.
  -schema       FILE is a JSON Schema, and no plugin; an empty one takes nothing.`
}

// Run implements [subcommand].
func (c *pluginConfigCommand) Run(args []string) int {
	f := c.flags("plugin config")
	input, own, isSchema := f.String("input", "-", ""), f.Bool("plugin", false, ""), f.Bool("schema", false, "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	if *own && *isSchema {
		return c.fail(f, errors.New("either -plugin or -schema: a schema is of the one block that it is for"))
	}
	given, err := configFor(f.Arg(0), *input, *own, *isSchema)
	if err != nil {
		return c.fail(f, err)
	}
	return c.printJSON(given)
}

// configFor is what a plugin gets for the block in a file.
func configFor(file, input string, own, isSchema bool) (json.RawMessage, error) {
	text, err := readBlock(input)
	if err != nil {
		return nil, err
	}
	where := input
	if input == "-" {
		where = "config"
	}
	value, err := taskValue(where, text)
	if err != nil {
		return nil, err
	}
	schemaText, err := schemaOf(file, own, isSchema)
	if err != nil {
		return nil, err
	}
	schema, err := configschema.Compile(schemaText)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return schema.CheckJSON("config", value)
}

// maxBlock is how large a block may be: a job file is a few kilobytes.
const maxBlock = 1 << 20

// readBlock reads a file, or standard input.
func readBlock(input string) (string, error) {
	in := os.Stdin
	if input != "-" {
		var err error
		if in, err = os.Open(input); err != nil {
			return "", err
		}
		defer in.Close()
	}
	text, err := io.ReadAll(io.LimitReader(in, maxBlock+1))
	if err == nil && len(text) > maxBlock {
		err = errors.New("a config block has at most 1 MiB")
	}
	return string(text), err
}

// schemaOf is the schema of a file: its own text, or that of the plugin that it is.
func schemaOf(file string, own, isSchema bool) (string, error) {
	if isSchema {
		text, err := os.ReadFile(file)
		return string(text), err
	}
	_, says, err := describeFile(file)
	switch {
	case err != nil:
		return "", err
	case own:
		return says.GetPluginConfigSchema(), nil
	}
	return says.GetTaskConfigSchema(), nil
}
