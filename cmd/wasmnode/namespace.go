package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"
	nomad "github.com/hashicorp/nomad/api"
)

type namespaceApplyCommand struct{ meta }

// Synopsis implements [subcommand].
func (*namespaceApplyCommand) Synopsis() string { return "Make a namespace, or change one" }

// Help implements [subcommand].
func (*namespaceApplyCommand) Help() string {
	return `Usage: wasmnode namespace apply [options] NAMESPACE

  Makes a namespace, or changes what the options name of one. Instead of its name, a file
  can be given ("-" reads standard input), which says all of it, and which the options
  -description, -meta and -quota are not for.

Options:

  -description=TEXT   What people read of it.
  -meta=KEY=VALUE     Set a part of its metadata; may be given several times.
  -quota=QUOTA        Refused: quotas are part of Nomad Enterprise.
  -json               The file is JSON.` + commonOptions
}

// namespaceChange are the options that change a namespace.
type namespaceChange struct {
	description, quota *string
	meta               map[string]string
}

func (n *namespaceChange) flags(f *flags) {
	text := func(to **string) func(string) error {
		return func(s string) error { *to = &s; return nil }
	}
	f.Func("description", "", text(&n.description))
	f.Func("quota", "", text(&n.quota))
	f.Func("meta", "", func(s string) error {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return fmt.Errorf("%q is not of the form KEY=VALUE", s)
		}
		if n.meta == nil {
			n.meta = map[string]string{}
		}
		n.meta[key] = value
		return nil
	})
}

// any reports whether an option is given.
func (n *namespaceChange) any() bool {
	return n.description != nil || n.quota != nil || len(n.meta) > 0
}

// of is a namespace as the node has it, or a new one, with the change.
func (n *namespaceChange) of(client *nomad.Client, name string) (*nomad.Namespace, error) {
	ns, _, err := client.Namespaces().Info(name, nil)
	var unexpected nomad.UnexpectedResponseError
	switch {
	case errors.As(err, &unexpected) && unexpected.StatusCode() == http.StatusNotFound:
		ns = &nomad.Namespace{Name: name}
	case err != nil:
		return nil, err
	}
	if n.description != nil {
		ns.Description = *n.description
	}
	if n.quota != nil {
		ns.Quota = *n.quota
	}
	for key, value := range n.meta {
		if ns.Meta == nil {
			ns.Meta = map[string]string{}
		}
		ns.Meta[key] = value
	}
	return ns, nil
}

// Run implements [subcommand].
func (c *namespaceApplyCommand) Run(args []string) int {
	f := c.flags("namespace apply")
	var change namespaceChange
	change.flags(f)
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	ns, err := c.wanted(f, client, &change)
	if err != nil {
		return c.fail(f, err)
	}
	if _, err := client.Namespaces().Register(ns, nil); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output(fmt.Sprintf("Successfully applied namespace %q!", ns.Name))
	return 0
}

// wanted is the namespace that a command line asks for, by a file or by its name.
func (c *namespaceApplyCommand) wanted(f *flags, client *nomad.Client, change *namespaceChange) (*nomad.Namespace, error) {
	name := f.Arg(0)
	if info, err := os.Stat(name); name != "-" && (err != nil || info.IsDir()) {
		if name == "" {
			return nil, errors.New("Namespace name required") //nolint:staticcheck // as in Nomad
		}
		return change.of(client, name)
	}
	if change.any() {
		c.ui.Warn("Flags are ignored when a file is specified!")
	}
	content, err := readFile(name)
	if err != nil {
		return nil, err
	}
	return readNamespace(name, content, *f.json)
}

// namespaceFile is a file of a namespace. The blocks of Nomad Enterprise are read, so that the
// node refuses them.
type namespaceFile struct {
	Name         string `hcl:"name"`
	Description  string `hcl:"description,optional"`
	Quota        string `hcl:"quota,optional"`
	Capabilities *struct {
		EnabledTaskDrivers   []string `hcl:"enabled_task_drivers,optional"`
		DisabledTaskDrivers  []string `hcl:"disabled_task_drivers,optional"`
		EnabledNetworkModes  []string `hcl:"enabled_network_modes,optional"`
		DisabledNetworkModes []string `hcl:"disabled_network_modes,optional"`
	} `hcl:"capabilities,block"`
	NodePools      *namespaceChoice `hcl:"node_pool_config,block"`
	Vault          *namespaceChoice `hcl:"vault,block"`
	Consul         *namespaceChoice `hcl:"consul,block"`
	Meta           *freeBlock       `hcl:"meta,block"`
	RequiredClaims *freeBlock       `hcl:"required_extra_claims,block"`
	OptionalClaims *freeBlock       `hcl:"optional_extra_claims,block"`
}

type namespaceChoice struct {
	Default string   `hcl:"default,optional"`
	Allowed []string `hcl:"allowed,optional"`
	Denied  []string `hcl:"denied,optional"`
}

// readNamespace parses a file's namespace.
func readNamespace(path string, content []byte, isJSON bool) (*nomad.Namespace, error) {
	ns := new(nomad.Namespace)
	if isJSON {
		if err := json.Unmarshal(content, ns); err != nil {
			return nil, jsonError(path, content, err)
		}
		return ns, nil
	}
	parsed, diags := hclparse.NewParser().ParseHCL(content, path)
	var file namespaceFile
	if !diags.HasErrors() {
		diags = gohcl.DecodeBody(parsed.Body, nil, &file)
	}
	if !diags.HasErrors() {
		ns.Name, ns.Description, ns.Quota = file.Name, file.Description, file.Quota
		diags = file.texts(ns)
	}
	if diags.HasErrors() {
		return nil, diags
	}
	if c := file.Capabilities; c != nil {
		ns.Capabilities = &nomad.NamespaceCapabilities{
			EnabledTaskDrivers: c.EnabledTaskDrivers, DisabledTaskDrivers: c.DisabledTaskDrivers,
			EnabledNetworkModes: c.EnabledNetworkModes, DisabledNetworkModes: c.DisabledNetworkModes,
		}
	}
	if p := file.NodePools; p != nil {
		ns.NodePoolConfiguration = &nomad.NamespaceNodePoolConfiguration{Default: p.Default, Allowed: p.Allowed, Denied: p.Denied}
	}
	if v := file.Vault; v != nil {
		ns.VaultConfiguration = &nomad.NamespaceVaultConfiguration{Default: v.Default, Allowed: v.Allowed, Denied: v.Denied}
	}
	if v := file.Consul; v != nil {
		ns.ConsulConfiguration = &nomad.NamespaceConsulConfiguration{Default: v.Default, Allowed: v.Allowed, Denied: v.Denied}
	}
	return ns, nil
}

// texts decodes the blocks whose names are free.
func (n *namespaceFile) texts(ns *nomad.Namespace) (diags hcl.Diagnostics) {
	for _, b := range []struct {
		block *freeBlock
		into  *map[string]string
	}{{n.Meta, &ns.Meta}, {n.RequiredClaims, &ns.RequiredExtraClaims}, {n.OptionalClaims, &ns.OptionalExtraClaims}} {
		texts, wrong := b.block.texts()
		*b.into, diags = texts, append(diags, wrong...)
	}
	return diags
}

type namespaceDeleteCommand struct{ meta }

// Synopsis implements [subcommand].
func (*namespaceDeleteCommand) Synopsis() string { return "Remove a namespace in which nothing lives" }

// Help implements [subcommand].
func (*namespaceDeleteCommand) Help() string {
	return `Usage: wasmnode namespace delete [options] NAMESPACE

  Removes a namespace. One with jobs or allocations that have not ended, with
  volumes or with variables stays, and so does "default".

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *namespaceDeleteCommand) Run(args []string) int {
	f := c.flags("namespace delete")
	client := c.connect(f, args, 1, 1, c.Help())
	if client == nil {
		return 1
	}
	if _, err := client.Namespaces().Delete(f.Arg(0), nil); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output(fmt.Sprintf("Successfully deleted namespace %q!", f.Arg(0)))
	return 0
}
