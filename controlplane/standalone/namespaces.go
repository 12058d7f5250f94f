package standalone

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// The bounds of namespaces.
const (
	maxNamespaces           = 1000
	maxNamespaceDescription = 256      // bytes, as in Nomad
	maxNamespaceSize        = 64 << 10 // bytes of all that is said of one, as JSON
)

// namespaceName has no underscore, as in Nomad.
var namespaceName = regexp.MustCompile(`^[a-zA-Z0-9-]{1,128}$`)

// defaultNamespace is the namespace "default" as long as nobody changed it.
var defaultNamespace = &nomad.Namespace{
	Name: nomad.DefaultNamespace, Description: "Default shared namespace", CreateIndex: 1, ModifyIndex: 1,
}

// Namespaces returns all namespaces, in no order.
func (cp *ControlPlane) Namespaces() []*nomad.Namespace {
	return read(cp, func(t *tables) []*nomad.Namespace {
		list := slices.Collect(maps.Values(t.namespaces))
		if t.namespaces[nomad.DefaultNamespace] == nil {
			list = append(list, defaultNamespace)
		}
		return list
	})
}

// Namespace returns a namespace by its name.
func (cp *ControlPlane) Namespace(name string) *nomad.Namespace {
	return read(cp, func(t *tables) *nomad.Namespace { return orDefault(name, t.namespaces[name]) })
}

// namespace returns a namespace by its name; nil: there is none.
func (t *tx) namespace(name string) *nomad.Namespace { return orDefault(name, t.namespaces.get(name)) }

// orDefault is what is stored of a namespace or, of the default one, what it is without that.
func orDefault(name string, stored *nomad.Namespace) *nomad.Namespace {
	if stored == nil && name == nomad.DefaultNamespace {
		return defaultNamespace
	}
	return stored
}

// PutNamespace makes a namespace, or takes its place. Its indexes do not count. It returns the
// change's index. What a namespace cannot be is errdefs.InvalidArgument, one too many
// errdefs.FailedPrecondition.
func (cp *ControlPlane) PutNamespace(n nomad.Namespace) (index uint64, err error) {
	if faults := namespaceFaults(&n); len(faults) > 0 {
		return 0, invalid("Invalid namespace %q: %s", n.Name, strings.Join(faults, "; "))
	}
	err = cp.write(func(t *tx) error {
		count := 0
		t.namespaces.all(func(string, *nomad.Namespace) { count++ })
		if t.namespaces.get(n.Name) == nil && count >= maxNamespaces {
			return errdefs.New(errdefs.FailedPrecondition, "there are %d namespaces, as many as there can be: delete some", count)
		}
		t.putNamespace(&n)
		index = t.at()
		return nil
	})
	return index, err
}

func (t *tx) putNamespace(n *nomad.Namespace) {
	t.touched[TableNamespaces] = t.at()
	n.CreateIndex, n.ModifyIndex = t.at(), t.at()
	if old := t.namespace(n.Name); old != nil {
		n.CreateIndex = old.CreateIndex
	}
	t.namespaces.put(n.Name, n)
}

// namespaceFaults is why there can be no such namespace, with Nomad's texts where it has them.
func namespaceFaults(n *nomad.Namespace) (faults []string) {
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if !namespaceName.MatchString(n.Name) {
		say("invalid name %q. Must match regex %s", n.Name, namespaceName)
	}
	if len(n.Description) > maxNamespaceDescription {
		say("description longer than %d", maxNamespaceDescription)
	}
	if n.Quota != "" {
		say("it is using the non-existent quota %q: quotas are part of Nomad Enterprise", n.Quota)
	}
	if n.NodePoolConfiguration != nil {
		say("invalid node pool configuration: Node Pools Governance is unlicensed.")
	}
	if n.VaultConfiguration != nil {
		say("invalid vault configuration: Multi-Cluster Vault is unlicensed.")
	}
	if n.ConsulConfiguration != nil {
		say("invalid consul configuration: Multi-Cluster Consul is unlicensed.")
	}
	if len(n.RequiredExtraClaims) > 0 || len(n.OptionalExtraClaims) > 0 {
		say("required_extra_claims and optional_extra_claims are not supported: workload identities have Nomad's own claims alone")
	}
	if text, err := json.Marshal(n); err != nil || len(text) > maxNamespaceSize {
		say("it has %d bytes, at most %d are possible", len(text), maxNamespaceSize)
	}
	return faults
}

// DeleteNamespace removes a namespace in which nothing is left that has not ended, and returns
// the change's index; region is what the errors name. What has ended stays until it is
// collected. An unknown one is errdefs.NotFound, the default one errdefs.InvalidArgument, one
// that is in use errdefs.FailedPrecondition.
func (cp *ControlPlane) DeleteNamespace(name, region string) (index uint64, err error) {
	err = cp.write(func(t *tx) error {
		if name == nomad.DefaultNamespace {
			return invalid("can not delete default namespace")
		}
		if t.namespaces.get(name) == nil {
			return notFound("namespace not found")
		}
		var used []string
		for _, what := range t.usesOf(name) {
			used = append(used, fmt.Sprintf("namespace %q has %s in regions: [%s]", name, what, region))
		}
		if len(used) > 0 {
			return errdefs.New(errdefs.FailedPrecondition, "%s", strings.Join(used, "; "))
		}
		t.touched[TableNamespaces] = t.at()
		t.namespaces.delete(name)
		index = t.at()
		return nil
	})
	return index, err
}

// usesOf is what keeps a namespace from being deleted, in Nomad's words.
func (t *tx) usesOf(name string) (uses []string) {
	jobs, allocs, volumes, variables := false, false, false, false
	t.jobs.all(func(key jobKey, j *job) { jobs = jobs || key.namespace == name && *j.Status != statusDead })
	t.allocs.all(func(_ string, a *schedule.Alloc) {
		allocs = allocs || a.Namespace == name && !a.ClientStatus.Terminal()
	})
	t.volumes.all(func(_ string, row *structs.NodeVolume) { volumes = volumes || row.Volume.Namespace == name })
	t.variables.all(func(key variableKey, _ *variableRow) { variables = variables || key.namespace == name })
	for _, use := range []struct {
		is   bool
		what string
	}{{jobs, "non-terminal jobs"}, {allocs, "non-terminal allocations"},
		{volumes, "volumes associated with it"}, {variables, "variables associated with it"}} {
		if use.is {
			uses = append(uses, use.what)
		}
	}
	return uses
}

// namespaceFault is why a job cannot be in its namespace, nil where there is none, with Nomad's
// texts; empty: it can.
func namespaceFault(j *nomad.Job, n *nomad.Namespace) string {
	if n == nil {
		return fmt.Sprintf("job %q is in nonexistent namespace %q", *j.ID, *j.Namespace)
	}
	if n.Capabilities == nil {
		return ""
	}
	var drivers, modes []string
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if !allowedIn(t.Driver, n.Capabilities.EnabledTaskDrivers, n.Capabilities.DisabledTaskDrivers) {
				drivers = append(drivers, t.Driver)
			}
		}
		for _, w := range g.Networks {
			mode := w.Mode
			if mode == "" {
				mode = "host"
			}
			if !allowedIn(mode, n.Capabilities.EnabledNetworkModes, n.Capabilities.DisabledNetworkModes) {
				modes = append(modes, mode)
			}
		}
	}
	switch {
	case len(drivers) == 1:
		return fmt.Sprintf("used task driver %q is not allowed in namespace %q", drivers[0], n.Name)
	case len(drivers) > 1:
		return fmt.Sprintf("used task drivers %q are not allowed in namespace %q", drivers, n.Name)
	case len(modes) == 1:
		return fmt.Sprintf("used group network mode %q is not allowed in namespace %q", modes[0], n.Name)
	case len(modes) > 1:
		return fmt.Sprintf("used group network modes %q are not allowed in namespace %q", modes, n.Name)
	}
	return ""
}

// allowedIn reports whether a name is among the enabled ones, where there are any, and not among
// the disabled ones.
func allowedIn(name string, enabled, disabled []string) bool {
	return (len(enabled) == 0 || slices.Contains(enabled, name)) && !slices.Contains(disabled, name)
}

// loadNamespace takes a stored namespace.
func (cp *ControlPlane) loadNamespace(name string, n *nomad.Namespace) error {
	if err := sameID(name, n.Name); err != nil {
		return err
	}
	cp.data.namespaces[name] = n
	cp.sawIndex(n.ModifyIndex)
	return nil
}

// completeNamespaces has each namespace be there in which something lives: the row of one that
// is damaged must not keep its jobs from being changed.
func (cp *ControlPlane) completeNamespaces() {
	need := func(name string) {
		if name != nomad.DefaultNamespace && cp.data.namespaces[name] == nil {
			cp.data.namespaces[name] = &nomad.Namespace{Name: name, CreateIndex: max(cp.index, 1), ModifyIndex: max(cp.index, 1)}
			cp.logger.Warn("a namespace is lost in which something lives: it is made anew, without its description and capabilities", "namespace", name)
		}
	}
	for key, j := range cp.data.jobs {
		if *j.Status != statusDead {
			need(key.namespace)
		}
	}
	for key := range cp.data.variables {
		need(key.namespace)
	}
	for _, row := range cp.data.volumes {
		need(row.Volume.Namespace)
	}
}
