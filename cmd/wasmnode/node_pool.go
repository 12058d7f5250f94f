package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"
	nomad "github.com/hashicorp/nomad/api"
)

type nodePoolApplyCommand struct{ meta }

// Synopsis implements [subcommand].
func (*nodePoolApplyCommand) Synopsis() string { return "Make a node pool, or change one" }

// Help implements [subcommand].
func (*nodePoolApplyCommand) Help() string {
	return `Usage: wasmnode node pool apply [options] FILE

  Makes the node pools of a file ("-" reads standard input), or changes them. The file
  has node_pool blocks, or with -json one pool. "node pool init" writes an example.

Options:
` + commonOptions
}

// poolFile is a file of node pools.
type poolFile struct {
	Pools []poolBlock `hcl:"node_pool,block"`
}

type poolBlock struct {
	Name        string     `hcl:"name,label"`
	Description string     `hcl:"description,optional"`
	Meta        *freeBlock `hcl:"meta,block"`
	Scheduler   *freeBlock `hcl:"scheduler_config,block"`
}

// readPools parses a file's node pools.
func readPools(path string, content []byte, isJSON bool) (pools []*nomad.NodePool, err error) {
	if isJSON {
		p := new(nomad.NodePool)
		if err := json.Unmarshal(content, p); err != nil {
			return nil, jsonError(path, content, err)
		}
		return []*nomad.NodePool{p}, nil
	}
	parsed, diags := hclparse.NewParser().ParseHCL(content, path)
	var file poolFile
	if !diags.HasErrors() {
		diags = gohcl.DecodeBody(parsed.Body, nil, &file)
	}
	if diags.HasErrors() {
		return nil, diags
	}
	for _, b := range file.Pools {
		p := &nomad.NodePool{Name: b.Name, Description: b.Description}
		if b.Scheduler != nil {
			p.SchedulerConfiguration = &nomad.NodePoolSchedulerConfiguration{} // which the node refuses
		}
		if p.Meta, diags = b.Meta.texts(); diags.HasErrors() {
			return nil, diags
		}
		pools = append(pools, p)
	}
	if len(pools) == 0 {
		return nil, fmt.Errorf("%s: no node_pool block", path)
	}
	return pools, nil
}

// Run implements [subcommand].
func (c *nodePoolApplyCommand) Run(args []string) int {
	f := c.flags("node pool apply")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	content, err := readFile(f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	pools, err := readPools(f.Arg(0), content, *f.json)
	if err != nil {
		return c.fail(f, err)
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	for _, p := range pools {
		if _, err := client.NodePools().Register(p, nil); err != nil {
			return c.fail(f, err)
		}
		c.ui.Output(fmt.Sprintf("Successfully applied node pool %q!", p.Name))
	}
	return 0
}

type nodePoolDeleteCommand struct{ meta }

// Synopsis implements [subcommand].
func (*nodePoolDeleteCommand) Synopsis() string { return "Remove a node pool that nothing uses" }

// Help implements [subcommand].
func (*nodePoolDeleteCommand) Help() string {
	return `Usage: wasmnode node pool delete [options] POOL

  Removes a node pool. One that has nodes, or jobs that are not dead, stays.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *nodePoolDeleteCommand) Run(args []string) int {
	f := c.flags("node pool delete")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	if _, err := client.NodePools().Delete(f.Arg(0), nil); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output(fmt.Sprintf("Successfully deleted node pool %q!", f.Arg(0)))
	return 0
}

type nodePoolInitCommand struct{ meta }

// Synopsis implements [subcommand].
func (*nodePoolInitCommand) Synopsis() string { return "Write an example of a node pool's file" }

// Help implements [subcommand].
func (*nodePoolInitCommand) Help() string {
	return `Usage: wasmnode node pool init [options] [FILE]

  Writes an example of a node pool's file, pool.nomad.hcl, or pool.nomad.json with
  -json. A file that is there stays as it is.

Options:

  -out=FORM  hcl or json: -json is another word for the latter.
  -quiet     Do not say what was written.
  -short     Write no comments.` + commonOptions
}

const examplePool = `node_pool "example" {
  description = "Example node pool"

  # What jobs and people are to know of it.
  meta {
    owner = "platform"
  }
}
`

// Run implements [subcommand].
func (c *nodePoolInitCommand) Run(args []string) int {
	f := c.flags("node pool init")
	short, quiet := f.Bool("short", false, ""), f.Bool("quiet", false, "")
	form := f.String("out", "hcl", "")
	if !c.parse(f, args, 0, 1, c.Help()) {
		return 1
	}
	if *form != "hcl" && *form != "json" {
		return c.fail(f, fmt.Errorf("-out %q is neither hcl nor json", *form))
	}
	name, content := "pool.nomad.hcl", examplePool
	if *short {
		content = strings.Replace(content, "  # What jobs and people are to know of it.\n", "", 1)
	}
	if *f.json || *form == "json" {
		name, content = "pool.nomad.json", `{"Name": "example", "Description": "Example node pool", "Meta": {"owner": "platform"}}`+"\n"
	}
	if f.NArg() == 1 {
		name = filepath.Clean(f.Arg(0))
	}
	out, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return c.fail(f, err)
	}
	defer out.Close()
	if _, err := out.WriteString(content); err != nil {
		return c.fail(f, err)
	}
	if !*quiet {
		c.ui.Output("Example node pool specification written to " + name)
	}
	return 0
}
