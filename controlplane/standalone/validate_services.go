package standalone

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

var references = regexp.MustCompile(`\$\{[^}]*\}`)

// services refuses what Nomad refuses of those of a group or, named, of one of its tasks, and
// more than [structs.MaxServices]. What a node cannot do of the rest, it says itself.
func (v *validation) services(services []*nomad.Service, task string) {
	if len(services) > structs.MaxServices {
		v.fault("a task, and a group itself, has at most %d services: there are %d", structs.MaxServices, len(services))
		return
	}
	seen := map[string]bool{}
	for i, s := range services {
		v.in(fmt.Sprintf("service %q", cmp.Or(s.Name, strconv.Itoa(i+1))), func() {
			v.service(s, task)
			for k := range s.Checks {
				v.in(fmt.Sprintf("check %q", s.Checks[k].Name), func() { v.serviceCheck(&s.Checks[k]) })
			}
		})
		key := s.Name + ":" + s.PortLabel
		if seen[key] {
			v.fault("Services are not unique: [%s->%s]", cmp.Or(task, "group"), key)
		}
		seen[key] = true
	}
}

func (v *validation) service(s *nomad.Service, task string) {
	// The node looks again when it knows what the references stand for.
	if !structs.IsServiceName(references.ReplaceAllString(s.Name, "x")) {
		v.fault("name: "+structs.ServiceNameRule+": %q", s.Name)
	}
	if n := max(len(s.Tags), len(s.CanaryTags)); n > structs.MaxServiceTags {
		v.fault("tags: a service has at most %d: there are %d", structs.MaxServiceTags, n)
	}
	modes := []string{"", "auto", "host", "alloc", "driver"}
	switch mode := s.AddressMode; {
	case !slices.Contains(modes, mode):
		v.fault(`address_mode: Service address_mode must be "auto", "host", or "driver"; not %q`, mode)
	case s.Address != "" && mode != "" && mode != "auto":
		v.fault(`address_mode: Service address_mode must be "auto" if address is set`)
	case mode == "driver" && task == "":
		v.fault(`address_mode: service %q cannot use address_mode="driver", only services defined in a "task" block can use this mode`, s.Name)
	}
	if !slices.Contains([]string{"", nomad.OnUpdateRequireHealthy, nomad.OnUpdateIgnoreWarn, nomad.OnUpdateIgnore}, s.OnUpdate) {
		v.fault(`on_update: Service on_update must be "require_healthy", "ignore_warnings", or "ignore"; not %q`, s.OnUpdate)
	}
	if task != "" && s.TaskName != "" && s.TaskName != task {
		v.fault("task: Service %s is invalid: may only specify task the service belongs to, got %q", s.Name, s.TaskName)
	}
	if _, err := strconv.Atoi(s.PortLabel); err == nil && task != "" && s.AddressMode != "driver" {
		v.fault("port: port label %q referenced by services %s does not exist", s.PortLabel, s.Name)
	}
}

var checkMethods = []string{"", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"}

func (v *validation) serviceCheck(c *nomad.ServiceCheck) {
	v.printable("name", c.Name)
	if !slices.Contains(checkMethods, strings.ToUpper(c.Method)) {
		v.fault("method: method type %q not supported in Nomad http check", c.Method)
	}
	if !slices.Contains([]string{"", "passing", "warning", "critical"}, c.InitialStatus) {
		v.fault(`initial_status: invalid initial check state (%s), must be one of "passing", "warning", "critical" or empty`, c.InitialStatus)
	}
}
