package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/configdoc"
	"github.com/wasmnode/wasmnode/internal/configschema"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/trial"
)

type pluginSchemaCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginSchemaCommand) Synopsis() string {
	return "Document what a plugin can be configured with"
}

// Help implements [subcommand].
func (*pluginSchemaCommand) Help() string {
	return `Usage: wasmnode plugin schema [options] NAME|FILE

  Prints reference documentation of a plugin's configuration, from its schemas: the
  config block of a driver's tasks, and that of the plugin itself. The plugin is one of
  the node's, by its name, or a file, for which no node is needed: it is loaded to
  describe itself, and granted nothing.

Options:

  -markdown   Print a page in Markdown, with tables and examples. So it is without.
  -hcl        Print the examples alone: what is required, and the rest as comments.` + commonOptions
}

// pluginSchema is a plugin's configuration, for programs. Without a schema it takes none.
type pluginSchema struct {
	Name         string
	Type         host.Kind
	Version      string
	Digest       string
	TaskConfig   *configReference `json:",omitempty"` // of a driver
	PluginConfig *configReference
}

// configReference documents one config block.
type configReference struct {
	Schema  json.RawMessage `json:",omitempty"`
	Fields  []*configschema.Field
	Example string // what is in the block
}

// Run implements [subcommand].
func (c *pluginSchemaCommand) Run(args []string) int {
	f := c.flags("plugin schema")
	markdown, hcl := f.Bool("markdown", false, ""), f.Bool("hcl", false, "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	if *markdown && *hcl || *f.json && (*markdown || *hcl) {
		c.misuse(c.Help(), "-markdown, -hcl and -json are forms: one of them")
		return 1
	}
	described, err := c.describe(f, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	s, err := newPluginSchema(described)
	switch {
	case err != nil:
		return c.fail(f, err)
	case *f.json:
		return c.printJSON(s)
	case *hcl:
		c.ui.Output(s.examples())
	default:
		c.ui.Output(s.page())
	}
	return 0
}

// describe returns what a plugin says of itself: a file's, or the node's of that name.
func (m meta) describe(f *flags, nameOrFile string) (d catalog.Description, err error) {
	if !isFile(nameOrFile) {
		client, err := m.client(f)
		if err != nil {
			return d, err
		}
		_, err = client.Raw().Query("/v1/agent/plugin/"+url.PathEscape(nameOrFile)+"/schema", &d, nil)
		return d, err
	}
	spec, says, err := describeFile(nameOrFile)
	if err != nil {
		return d, err
	}
	return descriptionOf(spec, says), nil
}

// isFile reports whether a word means a file, and not a plugin of the node's.
func isFile(word string) bool {
	if strings.ContainsRune(word, filepath.Separator) || filepath.Ext(word) == ".wasm" {
		return true
	}
	info, err := os.Stat(word)
	return err == nil && info.Mode().IsRegular()
}

// describeFile reads a plugin's file, and has the plugin describe itself.
func describeFile(file string) (spec *host.Spec, says *wasmnodev1.DriverDescribeResponse, err error) {
	wasm, err := trial.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	if spec, err = host.Inspect(wasm, len(wasm)); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), compileTime)
	defer cancel()
	says, err = trial.Describe(ctx, wasm, trial.Config{Logger: hclog.NewNullLogger(), CacheDir: codeDir(), Version: agent.Version})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return spec, says, nil
}

func newPluginSchema(d catalog.Description) (s pluginSchema, err error) {
	s = pluginSchema{Name: d.Name, Type: d.Type, Version: d.Version, Digest: d.Digest}
	if d.Type == host.KindDriver {
		if s.TaskConfig, err = newReference(d.TaskConfigSchema); err != nil {
			return s, fmt.Errorf("task_config_%w", err)
		}
	}
	if s.PluginConfig, err = newReference(d.PluginConfigSchema); err != nil {
		return s, fmt.Errorf("plugin_config_%w", err)
	}
	return s, nil
}

func newReference(text string) (*configReference, error) {
	schema, err := configschema.Compile(text)
	if err != nil {
		return nil, err
	}
	fields, err := schema.Fields()
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return &configReference{json.RawMessage(text), fields, configdoc.Example(schema, fields)}, nil
}

// page is a plugin's reference documentation in Markdown.
func (s pluginSchema) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s %s\n", s.Name, harmless(s.Version))
	section := func(title string, r *configReference, example string) {
		fmt.Fprintf(&b, "\n## %s\n\n%s", title, configdoc.Table(r.Fields))
		if len(r.Fields) > 0 {
			fmt.Fprintf(&b, "\n```hcl\n%s```\n", example)
		}
	}
	if s.TaskConfig != nil {
		section("The config block of a task", s.TaskConfig, s.taskExample())
	}
	section("The plugin's own configuration", s.PluginConfig, s.pluginExample())
	return strings.TrimSuffix(b.String(), "\n")
}

// examples are what may stand in a job file and in an agent's configuration.
func (s pluginSchema) examples() string {
	var parts []string
	if s.TaskConfig != nil {
		parts = append(parts, "# In a job file:\n"+s.taskExample())
	}
	if len(s.PluginConfig.Fields) > 0 {
		parts = append(parts, "# In the agent's configuration:\n"+s.pluginExample())
	}
	return strings.TrimSuffix(strings.Join(parts, "\n"), "\n")
}

func (s pluginSchema) taskExample() string {
	return fmt.Sprintf("task \"example\" {\n  driver = %q\n\n  config {\n%s  }\n}\n", s.Name, indented(s.TaskConfig.Example, "    "))
}

func (s pluginSchema) pluginExample() string {
	return fmt.Sprintf("plugin %q {\n  config {\n%s  }\n}\n", s.Name, indented(s.PluginConfig.Example, "    "))
}

// indented begins each line that is not empty with blanks.
func indented(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line != "\n" {
			line = by + line
		}
		b.WriteString(line)
	}
	return b.String()
}
