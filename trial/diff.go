package trial

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/configschema"
)

// Change is one difference between two plugins that an operator, a job or a node notices.
type Change struct {
	// Part is what it is a part of: "plugin", "operation", "import", "grant", "capability",
	// "task config" or "plugin config".
	Part string
	Name string
	Text string // in words: "gone"
	// Breaking: what works with the old plugin may not with the new one, as the two are.
	Breaking bool
}

// Described is a plugin's file, and what the plugin says of itself.
type Described struct {
	Spec *host.Spec
	Says *wasmnodev1.DriverDescribeResponse
}

// Compare tells what is different in a newer plugin: its name, what it imports and exports, the
// grants that it needs before it is used, what it can do, and its configuration. What it does is
// not compared, and of a driver and a device plugin nothing but that. The error says which schema is none.
func Compare(old, new Described) (changes []Change, err error) {
	changes = compareWords(old, new)
	if old.Spec.Kind != new.Spec.Kind {
		return changes, nil // they have nothing in common
	}
	changes = slices.Concat(
		changes,
		compareNames("operation", old.Spec.Operations, new.Spec.Operations, true),
		compareNames("import", imports(old.Spec), imports(new.Spec), false),
		compareGrants(old, new),
		compareCapabilities(old.Says.GetCapabilities(), new.Says.GetCapabilities()),
	)
	for _, c := range []struct{ part, old, new string }{
		{"task config", old.Says.GetTaskConfigSchema(), new.Says.GetTaskConfigSchema()},
		{"plugin config", old.Says.GetPluginConfigSchema(), new.Says.GetPluginConfigSchema()},
	} {
		more, err := compareSchemas(c.part, c.old, c.new)
		if err != nil {
			return nil, err
		}
		changes = append(changes, more...)
	}
	return changes, nil
}

// compareWords compares what a plugin calls itself.
func compareWords(old, new Described) (changes []Change) {
	for _, w := range []struct {
		name, was, is string
		breaking      bool
	}{
		{"type", string(old.Spec.Kind), string(new.Spec.Kind), true},
		{"name", old.Says.GetName(), new.Says.GetName(), true},
		{"version", old.Says.GetVersion(), new.Says.GetVersion(), false},
	} {
		if w.was != w.is {
			changes = append(changes, Change{"plugin", w.name, fmt.Sprintf("was %s, now %s", w.was, w.is), w.breaking})
		}
	}
	return changes
}

// compareNames compares names that there are or are not. Breaking says what it is when one goes.
func compareNames(part string, old, new []string, breaking bool) (changes []Change) {
	for _, name := range old {
		if !slices.Contains(new, name) {
			changes = append(changes, Change{part, name, "gone", breaking})
		}
	}
	for _, name := range new {
		if !slices.Contains(old, name) {
			changes = append(changes, Change{part, name, "new", false})
		}
	}
	return changes
}

func imports(s *host.Spec) (names []string) {
	for _, i := range s.Imports {
		names = append(names, i.Module+" "+i.Name)
	}
	slices.Sort(names)
	return slices.Compact(names) // a toolchain may import one twice
}

// compareGrants compares what each has to be granted.
func compareGrants(old, new Described) (changes []Change) {
	before, after := old.Spec.Needs(old.Says), new.Spec.Needs(new.Says)
	has := func(all []*host.MissingGrantError, capability string) bool {
		return slices.ContainsFunc(all, func(e *host.MissingGrantError) bool { return e.Capability == capability })
	}
	for _, need := range before {
		if !has(after, need.Capability) {
			changes = append(changes, Change{"grant", need.Capability, "no longer needed", false})
		}
	}
	for _, need := range after {
		if !has(before, need.Capability) {
			changes = append(changes, Change{"grant", need.Capability, "now needed: add " + need.Fix, true})
		}
	}
	return changes
}

// compareCapabilities compares what drivers say that they can do.
func compareCapabilities(old, new *wasmnodev1.DriverCapabilities) (changes []Change) {
	for _, c := range []struct {
		name    string
		was, is bool
	}{
		{"send_signals", old.GetSendSignals(), new.GetSendSignals()},
		{"exec", old.GetExec(), new.GetExec()},
		{"network_namespaces", old.GetNetworkNamespaces(), new.GetNetworkNamespaces()},
		{"creates_networks", old.GetCreatesNetworks(), new.GetCreatesNetworks()},
	} {
		switch {
		case c.was && !c.is:
			changes = append(changes, Change{"capability", c.name, "gone", true})
		case c.is && !c.was:
			changes = append(changes, Change{"capability", c.name, "new", false})
		}
	}
	if was, is := old.GetFilesystemIsolation(), new.GetFilesystemIsolation(); was != is {
		changes = append(changes, Change{"capability", "filesystem_isolation", fmt.Sprintf("was %s, now %s", isolation(was), isolation(is)), true})
	}
	return changes
}

func isolation(i wasmnodev1.FilesystemIsolation) string {
	return strings.ToLower(strings.TrimPrefix(i.String(), "FILESYSTEM_ISOLATION_"))
}

// compareSchemas compares what two schemas take.
func compareSchemas(part, old, new string) (changes []Change, err error) {
	var fields [2][]*configschema.Field
	for i, text := range []string{old, new} {
		schema, err := configschema.Compile(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part, err)
		}
		if fields[i], err = schema.Fields(); err != nil {
			return nil, fmt.Errorf("%s: %w", part, err)
		}
	}
	for _, c := range configschema.Compare(fields[0], fields[1]) {
		changes = append(changes, Change{part, c.Path, c.Text, c.Breaking})
	}
	if len(changes) == 0 && !reflect.DeepEqual(rules(old), rules(new)) {
		changes = append(changes, Change{part, "schema", "differs in more than its fields: in what goes together, or what else it takes", true})
	}
	return changes, nil
}

// rules are what a schema says without what it tells people.
func rules(schema string) any {
	var document any
	if json.Unmarshal([]byte(schema), &document) != nil {
		return nil // the empty one takes nothing
	}
	return stripped(document)
}

func stripped(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = stripped(v[i])
		}
	case map[string]any:
		for key, member := range v {
			_, text := member.(string)
			_, list := member.([]any)
			if told := slices.Contains([]string{"description", "title", "$comment"}, key); told && text || key == "examples" && list {
				delete(v, key)
				continue
			}
			v[key] = stripped(member)
		}
	}
	return v
}
