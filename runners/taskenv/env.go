package taskenv

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/structs"
)

// Env is a task's environment. It does not change and may be used concurrently.
type Env struct {
	vars    map[string]string
	node    *structs.Node // for references only
	devices map[string]string
}

// Map is the variables by name, as a copy.
func (e *Env) Map() map[string]string { return maps.Clone(e.vars) }

// List is the variables as "NAME=value", sorted.
func (e *Env) List() []string {
	out := make([]string, 0, len(e.vars))
	for _, name := range slices.Sorted(maps.Keys(e.vars)) {
		out = append(out, name+"="+e.vars[name])
	}
	return out
}

// Get is one variable.
func (e *Env) Get(name string) (value string, set bool) {
	value, set = e.vars[name]
	return value, set
}

// Lookup is a variable, or what a reference may name of the node, such as
// "node.unique.name", "attr.kernel.name" or "meta.rack".
func (e *Env) Lookup(name string) (value string, set bool) {
	if value, set = e.vars[name]; set {
		return value, true
	}
	return e.ofNode(name)
}

// Devices is the part of the variables that devices asked for, as a copy.
func (e *Env) Devices() map[string]string { return maps.Clone(e.devices) }

// reference is ${name}, ${env["name"]} or ${env.name}.
var reference = regexp.MustCompile(`\$\{\s*(?:env\[\s*"([^"]+)"\s*\]|([a-zA-Z0-9_\-./]+))\s*\}`)

// Replace replaces each reference in a text by what it names: ${NAME}, ${env["NAME"]}
// and ${env.NAME} a variable; ${node.…}, ${attr.…} and ${meta.…} something of the node. A
// reference to nothing known stays as it is.
func (e *Env) Replace(text string) string {
	out, _ := e.ReplaceWithin(text, math.MaxInt)
	return out
}

// ReplaceWithin is Replace for a result of a bounded size, in bytes. One that is larger is not
// made; within is false then, and the text is the beginning of it.
func (e *Env) ReplaceWithin(text string, most int) (replaced string, within bool) {
	if !strings.Contains(text, "${") { // as nearly all are
		if len(text) > most {
			return "", false
		}
		return text, true
	}
	var out strings.Builder
	for {
		at := reference.FindStringSubmatchIndex(text)
		if at == nil {
			break
		}
		value, known := e.lookup(group(text, at, 1), group(text, at, 2))
		if !known {
			value = text[at[0]:at[1]]
		}
		if most-out.Len() < at[0]+len(value) {
			return out.String(), false
		}
		out.WriteString(text[:at[0]])
		out.WriteString(value)
		text = text[at[1]:]
	}
	if most-out.Len() < len(text) {
		return out.String(), false
	}
	if out.Len() == 0 {
		return text, true
	}
	out.WriteString(text)
	return out.String(), true
}

// group is what a group of a pattern has found; empty: nothing.
func group(text string, at []int, n int) string {
	if at[2*n] < 0 {
		return ""
	}
	return text[at[2*n]:at[2*n+1]]
}

func (e *Env) lookup(quoted, bare string) (string, bool) {
	if quoted != "" {
		return e.variable(quoted)
	}
	if value, known := e.ofNode(bare); known {
		return value, true
	}
	if name, found := strings.CutPrefix(bare, "env."); found {
		return e.variable(name)
	}
	return e.variable(bare)
}

// variable finds a variable under its name or under the one that cleaning makes of it.
func (e *Env) variable(name string) (string, bool) {
	if value, set := e.vars[name]; set {
		return value, true
	}
	value, set := e.vars[cleanName(name)]
	return value, set
}

// ReplaceAny replaces the references in every text of a value as JSON has them: maps,
// lists and texts, at any depth, the maps' keys too. The value itself is not changed.
func (e *Env) ReplaceAny(v any) any {
	switch v := v.(type) {
	case string:
		return e.Replace(v)
	case []string:
		out := make([]string, len(v))
		for i, s := range v {
			out[i] = e.Replace(s)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = e.ReplaceAny(item)
		}
		return out
	case map[string]string:
		out := make(map[string]string, len(v))
		for key, item := range v {
			out[e.Replace(key)] = e.Replace(item)
		}
		return out
	case []map[string]any:
		out := make([]map[string]any, len(v))
		for i, item := range v {
			out[i] = e.ReplaceConfig(item)
		}
		return out
	case map[string]any:
		return e.ReplaceConfig(v)
	}
	return v
}

// ReplaceConfig is ReplaceAny for a task's config block; nil stays nil.
func (e *Env) ReplaceConfig(config map[string]any) map[string]any {
	if config == nil {
		return nil
	}
	out := make(map[string]any, len(config))
	for key, item := range config {
		out[e.Replace(key)] = e.ReplaceAny(item)
	}
	return out
}

// ofNode is what a reference may name of the node, with Nomad's names.
func (e *Env) ofNode(name string) (value string, known bool) {
	if key, is := strings.CutPrefix(name, "attr."); is {
		value, known = e.node.Attributes[key]
		return value, known
	}
	if key, is := strings.CutPrefix(name, "meta."); is {
		value, known = e.node.Meta[key]
		return value, known
	}
	switch name {
	case "node.unique.id":
		return e.node.ID, true
	case "node.unique.name":
		return e.node.Name, true
	case "node.datacenter":
		return e.node.Datacenter, true
	case "node.region":
		return e.node.Region, true
	case "node.class":
		return e.node.Class, true
	case "node.pool":
		return e.node.Pool, true
	}
	return "", false
}
