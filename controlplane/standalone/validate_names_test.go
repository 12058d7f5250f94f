package standalone

import (
	"fmt"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// A name that drives the terminal, or shows as another, is in nobody's list.
func TestNamesWithControlCharactersAreRefused(t *testing.T) {
	s, err := Open(Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for name, c := range map[string]struct {
		put  func(j *nomad.Job)
		want string
	}{
		"job":   {func(j *nomad.Job) { j.ID = new("a\x1b[2J") }, `Job ID: "a\x1b[2J" has control characters`},
		"name":  {func(j *nomad.Job) { j.Name = new("a\nb") }, `Job name: "a\nb" has control characters`},
		"group": {func(j *nomad.Job) { j.TaskGroups[0].Name = new("\u202eg") }, `Job task group name: "\u202eg" has control characters`},
		"task":  {func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Name = "t\u0085" }, `: name: "t\u0085" has control characters`},
		"service": {func(j *nomad.Job) { j.TaskGroups[0].Services = []*nomad.Service{{Name: "s\x07"}} },
			`: service "s\a": name: Service name must be valid per RFC 1123 and can contain only alphanumeric characters or dashes and must be no longer than 63 characters: "s\a"`},
		"check": {func(j *nomad.Job) {
			j.TaskGroups[0].Tasks[0].Services = []*nomad.Service{{Name: "s", Checks: []nomad.ServiceCheck{{Name: "c\x7f", Type: "tcp"}}}}
		}, `: service "s": check "c\x7f": name: "c\x7f" has control characters`},
	} {
		t.Run(name, func(t *testing.T) {
			j := testJob("names", "batch")
			c.put(j)
			faults, _ := s.ValidateJob(j)
			require.Len(t, faults, 1)
			require.Contains(t, faults[0], c.want)
		})
	}
	j := testJob("grüße-☂", "batch")
	faults, _ := s.ValidateJob(j)
	require.Empty(t, faults)
}

// Each was measured with Nomad, which says the same after the place.
func TestWhatNomadRefusesOfServicesIsRefused(t *testing.T) {
	s := withNode(t, "")
	const rfc = "name: Service name must be valid per RFC 1123 and can contain only alphanumeric characters or dashes and must be no longer than 63 characters: "
	check := func(c nomad.ServiceCheck) nomad.Service {
		return nomad.Service{Name: "s", Checks: []nomad.ServiceCheck{c}}
	}
	for name, c := range map[string]struct {
		service nomad.Service
		ofGroup string
		ofTask  string
	}{
		"a letter":         {nomad.Service{Name: "A"}, "", ""},
		"63 letters":       {nomad.Service{Name: strings.Repeat("x", 63)}, "", ""},
		"64 letters":       {nomad.Service{Name: strings.Repeat("x", 64)}, rfc, rfc},
		"a reference":      {nomad.Service{Name: "${JOB}-x"}, "", ""},
		"a word after one": {nomad.Service{Name: "${JOB}_"}, rfc, rfc},
		"a dash last":      {nomad.Service{Name: "a-"}, rfc, rfc},
		"a dot":            {nomad.Service{Name: "a.b"}, rfc, rfc},
		"address_mode":     {nomad.Service{Name: "s", AddressMode: "odd"}, `address_mode: Service address_mode must be "auto", "host", or "driver"; not "odd"`, `address_mode: Service address_mode must be "auto", "host", or "driver"; not "odd"`},
		"of the driver":    {nomad.Service{Name: "s", AddressMode: "driver"}, `address_mode: service "s" cannot use address_mode="driver", only services defined in a "task" block can use this mode`, ""},
		"address":          {nomad.Service{Name: "s", AddressMode: "host", Address: "x"}, `address_mode: Service address_mode must be "auto" if address is set`, `address_mode: Service address_mode must be "auto" if address is set`},
		"on_update":        {nomad.Service{Name: "s", OnUpdate: "odd"}, `on_update: Service on_update must be "require_healthy", "ignore_warnings", or "ignore"; not "odd"`, `on_update: Service on_update must be "require_healthy", "ignore_warnings", or "ignore"; not "odd"`},
		"of another task":  {nomad.Service{Name: "s", TaskName: "u"}, "", `task: Service s is invalid: may only specify task the service belongs to, got "u"`},
		"a number":         {nomad.Service{Name: "s", PortLabel: "80"}, "", `port: port label "80" referenced by services s does not exist`},
		"method":           {check(nomad.ServiceCheck{Name: "c", Method: "odd"}), `check "c": method: method type "odd" not supported in Nomad http check`, `check "c": method: method type "odd" not supported in Nomad http check`},
		"a small method":   {check(nomad.ServiceCheck{Name: "c", Method: "get"}), "", ""},
		"initial_status":   {check(nomad.ServiceCheck{Name: "c", InitialStatus: "odd"}), `check "c": initial_status: invalid initial check state (odd), must be one of "passing", "warning", "critical" or empty`, `check "c": initial_status: invalid initial check state (odd), must be one of "passing", "warning", "critical" or empty`},
	} {
		t.Run(name, func(t *testing.T) {
			refused := func(want, place string, put func(*nomad.TaskGroup, *nomad.Service)) {
				service := c.service
				faults, _ := s.ValidateJob(testJob("j", "service", group(func(g *nomad.TaskGroup) { put(g, &service) })))
				if want == "" {
					require.Empty(t, faults)
					return
				}
				require.Len(t, faults, 1)
				require.Contains(t, faults[0], place+want)
			}
			onGroup := func(g *nomad.TaskGroup, s *nomad.Service) { g.Services = []*nomad.Service{s} }
			onTask := func(g *nomad.TaskGroup, s *nomad.Service) { g.Tasks[0].Services = []*nomad.Service{s} }
			in := fmt.Sprintf("service %q: ", c.service.Name)
			refused(c.ofGroup, `group "g": `+in, onGroup)
			refused(c.ofTask, `group "g": task "t": `+in, onTask)
		})
	}
	twice := testJob("j", "service", group(func(g *nomad.TaskGroup) {
		g.Services = []*nomad.Service{{Name: "s", PortLabel: "1"}, {Name: "s", PortLabel: "2"}, {Name: "s", PortLabel: "1"}}
	}))
	faults, _ := s.ValidateJob(twice)
	require.Equal(t, []string{`group "g": Services are not unique: [group->s:1]`}, faults)
}
