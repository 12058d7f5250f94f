package acl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	hcljson "github.com/hashicorp/hcl/v2/json"

	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// Rules are what a policy allows, as it is written: in HCL, or the same as JSON.
type Rules struct {
	Namespaces  []NamespaceRule `hcl:"namespace,block"`
	NodePools   []NamedRule     `hcl:"node_pool,block"`
	HostVolumes []NamedRule     `hcl:"host_volume,block"`
	Agent       *Rule           `hcl:"agent,block"`
	Node        *Rule           `hcl:"node,block"`
	Operator    *Rule           `hcl:"operator,block"`
	Plugin      *Rule           `hcl:"plugin,block"`
	Quota       *Rule           `hcl:"quota,block"`    // read, and without a meaning: there are no quotas
	Sentinel    *Rule           `hcl:"sentinel,block"` // read, and without a meaning: there is no Sentinel
}

// Rule is a level, such as "read", or single capabilities, or both.
type Rule struct {
	Policy       string   `hcl:"policy,optional"`
	Capabilities []string `hcl:"capabilities,optional"`
}

// NamedRule is a rule for what has a name; a "*" in that stands for any text.
type NamedRule struct {
	Name         string   `hcl:"name,label"`
	Policy       string   `hcl:"policy,optional"`
	Capabilities []string `hcl:"capabilities,optional"`
}

// NamespaceRule is a rule for namespaces, and for paths of variables in them.
type NamespaceRule struct {
	Name         string   `hcl:"name,label"`
	Policy       string   `hcl:"policy,optional"`
	Capabilities []string `hcl:"capabilities,optional"`
	Variables    *struct {
		Paths []PathRule `hcl:"path,block"`
	} `hcl:"variables,block"`
}

// PathRule is a rule for variables; a "*" in the path stands for any text.
type PathRule struct {
	Path         string   `hcl:"path,label"`
	Capabilities []string `hcl:"capabilities"`
}

// The levels and capabilities that code asks for by name.
const (
	deny  = "deny"
	read  = "read"
	write = "write"
	list  = "list"
	scale = "scale"
)

// readingNamespace is what the level "read" stands for in a namespace, writingNamespace what
// "write" adds, and scalingNamespace what "scale" stands for.
var (
	readingNamespace = []string{
		"list-jobs", "parse-job", "read-job", "csi-list-volume", "csi-read-volume", "read-job-scaling",
		"list-scaling-policies", "read-scaling-policy", "host-volume-read",
	}
	writingNamespace = []string{
		"scale-job", "submit-job", "dispatch-job", "read-logs", "read-fs", "alloc-exec", "alloc-lifecycle",
		"csi-mount-volume", "csi-write-volume", "submit-recommendation", "host-volume-create",
	}
	scalingNamespace = []string{
		"list-scaling-policies", "read-scaling-policy", "read-job-scaling", "scale-job", "read-job", "submit-recommendation",
	}
)

// namespaceCapabilities are the others, which no level stands for.
var namespaceCapabilities = []string{
	deny, "alloc-node-exec", "csi-register-plugin", "host-volume-register", "host-volume-write", "host-volume-delete", "sentinel-override",
	"register-job", "revert-job", "deregister-job", "purge-job", "evaluate-job", "plan-job", "tag-job-version", "stable-job",
	"fail-deployment", "pause-deployment", "promote-deployment", "unblock-deployment", "cancel-deployment",
	"set-alloc-health-deployment", "gc-allocation", "pause-allocation", "force-periodic-job", "delete-service-registration",
}

// impliedVolumes are what capabilities of host volumes include.
var impliedVolumes = map[string][]string{
	"host-volume-write":    {"host-volume-register", "host-volume-create", "host-volume-delete", "host-volume-read"},
	"host-volume-register": {"host-volume-create", "host-volume-read"},
	"host-volume-create":   {"host-volume-read"},
}

// operatorLevels are what levels of the operator stand for.
var operatorLevels = map[string][]string{
	read:  {"license-read", "keyring-read"},
	write: {"snapshot-save", "license-read", "keyring-rotate", "keyring-read", "keyring-delete"},
}

var (
	ruledName = regexp.MustCompile(`^[a-zA-Z0-9-*]{1,128}$`)
	ruledPool = regexp.MustCompile(`^[a-zA-Z0-9-_*]{1,128}$`)
)

// maxRulesBytes bounds what a policy says.
const maxRulesBytes = 64 << 10

// ParseRules reads and checks a policy. The error is one line that says where and what is wrong.
func ParseRules(text string) (*Rules, error) {
	if len(text) > maxRulesBytes {
		return nil, fmt.Errorf("its rules have %d bytes, at most %d are possible", len(text), maxRulesBytes)
	}
	body, diags := parseRules([]byte(text))
	r := new(Rules)
	if !diags.HasErrors() {
		diags = gohcl.DecodeBody(body, nil, r)
	}
	if diags.HasErrors() {
		return nil, fmt.Errorf("failed to parse ACL Policy: %s", firstOf(diags))
	}
	return r, r.check()
}

func parseRules(text []byte) (hcl.Body, hcl.Diagnostics) {
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return hclvalue.ParseFile("rules", text)
	}
	start := hcl.Range{Filename: "rules", Start: hcl.InitialPos, End: hcl.InitialPos}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			break // the end, or what the parser tells
		}
		if _, is := token.(json.Number); is {
			return nil, hclvalue.Errorf(start, "A policy has no numbers.") // 1e9999999 takes half a minute to be read
		}
	}
	file, diags := hcljson.Parse(text, "rules")
	if diags.HasErrors() {
		return nil, diags
	}
	return file.Body, nil
}

// firstOf is the first fault, on one line.
func firstOf(diags hcl.Diagnostics) string {
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			return strings.Join(strings.Fields(d.Error()), " ")
		}
	}
	return diags.Error()
}

// check finds what a policy says and cannot.
func (r *Rules) check() error {
	if len(r.Namespaces)+len(r.NodePools)+len(r.HostVolumes) == 0 && r.Agent == nil && r.Node == nil && r.Operator == nil &&
		r.Plugin == nil && r.Quota == nil && r.Sentinel == nil {
		return fmt.Errorf("invalid policy: it has no rule")
	}
	for _, n := range r.Namespaces {
		if err := n.check(); err != nil {
			return err
		}
	}
	for _, p := range r.NodePools {
		if err := (&Rule{p.Policy, p.Capabilities}).check("node_pool "+p.Name, ruledPool.MatchString(p.Name), deny, read, write, "delete"); err != nil {
			return err
		}
	}
	for _, v := range r.HostVolumes {
		if err := (&Rule{v.Policy, v.Capabilities}).check("host_volume "+v.Name, ruledName.MatchString(v.Name), deny, "mount-readonly", "mount-readwrite"); err != nil {
			return err
		}
	}
	for what, rule := range map[string]*Rule{"agent": r.Agent, "node": r.Node, "quota": r.Quota} {
		if err := rule.check(what, true); err != nil {
			return err
		}
	}
	if r.Plugin != nil && r.Plugin.Policy != list {
		if err := r.Plugin.check("plugin", true); err != nil {
			return err
		}
	}
	if err := r.Operator.check("operator", true, append(slices.Clone(operatorLevels[write]), deny)...); err != nil {
		return err
	}
	return r.Sentinel.check("sentinel", true, deny, "sentinel-read", "sentinel-submit", "sentinel-delete")
}

// check checks a rule's level and capabilities; nil has none.
func (r *Rule) check(what string, named bool, capabilities ...string) error {
	if r == nil {
		return nil
	}
	if !named {
		return fmt.Errorf("invalid name: %s", what)
	}
	if r.Policy != "" && !slices.Contains([]string{deny, read, write, scale}, r.Policy) {
		return fmt.Errorf("invalid policy %q of %s: it is one of deny, read, write and scale", r.Policy, what)
	}
	for _, c := range r.Capabilities {
		if !slices.Contains(capabilities, c) {
			return fmt.Errorf("invalid capability %q of %s", c, what)
		}
	}
	return nil
}

func (n *NamespaceRule) check() error {
	what := fmt.Sprintf("namespace %q", n.Name)
	known := slices.Concat(readingNamespace, writingNamespace, namespaceCapabilities)
	if err := (&Rule{n.Policy, n.Capabilities}).check(what, ruledName.MatchString(n.Name), known...); err != nil {
		return err
	}
	if n.Variables == nil {
		return nil
	}
	if len(n.Variables.Paths) == 0 {
		return fmt.Errorf("invalid variable policy: no variable paths in %s", what)
	}
	for _, p := range n.Variables.Paths {
		if p.Path == "" || strings.HasPrefix(p.Path, "/") {
			return fmt.Errorf("invalid variable path %q in %s: it is empty or begins with /", p.Path, what)
		}
		if err := (&Rule{Capabilities: p.Capabilities}).check(fmt.Sprintf("path %q in %s", p.Path, what), true, deny, read, write, list, "destroy"); err != nil {
			return err
		}
	}
	return nil
}

// capabilities are all that a rule for a namespace stands for.
func (n *NamespaceRule) capabilities() (all []string) {
	all = slices.Clone(n.Capabilities)
	switch n.Policy {
	case deny:
		return []string{deny}
	case read:
		all = append(all, readingNamespace...)
	case write:
		all = append(append(all, readingNamespace...), writingNamespace...)
	case scale:
		all = append(all, scalingNamespace...)
	}
	for _, c := range slices.Clone(all) {
		all = append(all, impliedVolumes[c]...)
	}
	return all
}
