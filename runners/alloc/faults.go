package alloc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/runners/artifact"
	"github.com/wasmnode/wasmnode/runners/check"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/runners/template"
)

// Faults finds what runners would refuse of a group's artifacts, templates and services,
// so that a control plane can report it when the job is registered: one line each, with
// where it is, and the first thousand of them.
func Faults(g *nomad.TaskGroup) []string {
	f := &faults{group: g, ports: portLabels(g)}
	f.services(g.Services, "")
	for _, t := range g.Tasks {
		f.at = fmt.Sprintf("task %q: ", t.Name)
		for i, a := range t.Artifacts {
			f.add(artifact.Check(a), "artifact %d", i+1)
		}
		for i, block := range t.Templates {
			made, err := template.New(block)
			if err == nil && made.Change == template.ChangeSignal {
				if _, unknown := task.ParseSignal(made.Signal); unknown != nil {
					err = fmt.Errorf("change_signal: %w", unknown)
				}
			}
			f.add(err, "template %d", i+1)
		}
		f.services(t.Services, t.Name)
	}
	return f.found
}

// maxFaults bounds what is found: each fault has names of the job in it, which may be long.
const maxFaults = 1000

type faults struct {
	group *nomad.TaskGroup
	ports map[string]bool // by label
	at    string
	found []string
}

func (f *faults) add(err error, format string, args ...any) {
	if err != nil && len(f.found) < maxFaults {
		f.found = append(f.found, f.at+fmt.Sprintf(format, args...)+": "+err.Error())
	}
}

func (f *faults) services(services []*nomad.Service, owner string) {
	for _, s := range services {
		f.add(f.service(s), "service %q", s.Name)
		for i := range s.Checks {
			c, err := check.New(s, &s.Checks[i], owner)
			if err == nil {
				err = c.Fits(f.group)
			}
			if err == nil && c.Port() != "" {
				err = f.port(c.Port())
			}
			f.add(err, "service %q: check %q", s.Name, s.Checks[i].Name)
		}
	}
}

func (f *faults) service(s *nomad.Service) error {
	switch {
	case s.Provider != "" && s.Provider != check.ProviderNomad:
		return fmt.Errorf("provider: %q is not supported: use %q", s.Provider, check.ProviderNomad)
	case s.Connect != nil:
		return fmt.Errorf("connect is not supported")
	case s.PortLabel != "":
		return f.port(s.PortLabel)
	}
	return nil
}

func (f *faults) port(label string) error {
	if _, err := strconv.ParseUint(label, 10, 16); err == nil || strings.Contains(label, "${") || f.ports[label] {
		return nil
	}
	return fmt.Errorf("port: the group has no port %q", label)
}

// portLabels are the labels of a group's ports, in older jobs also its tasks'.
func portLabels(g *nomad.TaskGroup) map[string]bool {
	labels := map[string]bool{}
	networks := slices.Clone(g.Networks)
	for _, t := range g.Tasks {
		if t.Resources != nil {
			networks = append(networks, t.Resources.Networks...)
		}
	}
	for _, n := range networks {
		for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
			labels[p.Label] = true
		}
	}
	return labels
}
