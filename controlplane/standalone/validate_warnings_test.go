package standalone

import (
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// TestNomadsWarningsAreGiven has the texts that Nomad 2.0.5 answered for the same jobs.
func TestNomadsWarningsAreGiven(t *testing.T) {
	const noDelay = `group "g" defines services, but neither the group nor any of its tasks have shutdown_delay set`
	s := withNode(t, "")
	services := func() []*nomad.Service { return []*nomad.Service{{Name: "web", Provider: "nomad"}} }
	group := func(change func(*nomad.TaskGroup)) func(*nomad.Job) {
		return func(j *nomad.Job) { change(j.TaskGroups[0]) }
	}
	second := func(j *nomad.Job, update *nomad.UpdateStrategy) {
		g := *j.TaskGroups[0]
		g.Name, g.Update = new("h"), update
		j.TaskGroups = append(j.TaskGroups, &g)
	}
	for name, c := range map[string]struct {
		kind   string
		change func(*nomad.Job)
		want   []string
	}{
		"cron": {"batch", func(j *nomad.Job) {
			j.Periodic = &nomad.PeriodicConfig{Enabled: new(true), Spec: new("@yearly"), SpecType: new("cron")}
		},
			[]string{"cron is deprecated and may be removed in a future release. Use crons instead"}},
		"crons": {"batch", func(j *nomad.Job) {
			j.Periodic = &nomad.PeriodicConfig{Enabled: new(true), Specs: []string{"@yearly"}, SpecType: new("cron")}
		}, nil},
		"a group's service": {"batch", group(func(g *nomad.TaskGroup) { g.Services = services() }), []string{noDelay}},
		"delayed by its group": {"service", group(func(g *nomad.TaskGroup) {
			g.Services, g.ShutdownDelay = services(), new(time.Second)
		}), nil},
		"delayed by a task": {"service", group(func(g *nomad.TaskGroup) {
			g.Services, g.Tasks[0].ShutdownDelay = services(), time.Second
		}), nil},
		"a task's service": {"service", group(func(g *nomad.TaskGroup) {
			g.Tasks[0].Services, g.ShutdownDelay = services(), new(time.Second)
		}), []string{`task "t" in group "g" defines services, but has no shutdown_delay set`}},
		"a delayed task's service": {"service", group(func(g *nomad.TaskGroup) {
			g.Tasks[0].Services, g.Tasks[0].ShutdownDelay = services(), time.Second
		}), nil},
		"all at once": {"service", group(func(g *nomad.TaskGroup) { g.Count, g.Update = new(2), &nomad.UpdateStrategy{MaxParallel: new(5)} }),
			[]string{"Group \"g\" has warnings: 1 error occurred:\n\t* Update max parallel count is greater than task group count (5 > 2). " +
				"A destructive change would result in the simultaneous replacement of all allocations."}},
		"as many as there are": {"service", group(func(g *nomad.TaskGroup) { g.Count, g.Update = new(2), &nomad.UpdateStrategy{MaxParallel: new(2)} }), nil},
		"the only one":         {"service", group(func(g *nomad.TaskGroup) { g.Update = &nomad.UpdateStrategy{MaxParallel: new(5)} }), nil},
		"a task's network": {"service", group(func(g *nomad.TaskGroup) { g.Tasks[0].Resources.Networks = []*nomad.NetworkResource{{}} }),
			[]string{"Group \"g\" has warnings: 1 error occurred:\n\t* Task \"t\" has warnings: 1 error occurred:\n\t* " +
				"task network resources have been deprecated as of Nomad 0.12.0. Please configure networking via group network block."}},
		"promoted in part": {"system", func(j *nomad.Job) {
			j.TaskGroups[0].Update = &nomad.UpdateStrategy{Canary: new(1), AutoPromote: new(true)}
			second(j, &nomad.UpdateStrategy{Canary: new(1)})
		}, []string{"auto_promote must be true for all groups to enable automatic promotion"}},
		"one with canaries": {"service", func(j *nomad.Job) {
			j.TaskGroups[0].Update = &nomad.UpdateStrategy{Canary: new(1), AutoPromote: new(true)}
			second(j, nil)
		}, nil},
		"memory": {"service", func(j *nomad.Job) {
			j.TaskGroups[0].Services = services()
			j.TaskGroups[0].Tasks[0].Resources.MemoryMaxMB = new(-1)
		}, []string{noDelay, `Memory oversubscription is not enabled; Task "g.t" memory_max value will be ignored. Update the Scheduler Configuration to allow oversubscription.`}},
	} {
		t.Run(name, func(t *testing.T) {
			faults, warnings := s.ValidateJob(testJob("j", c.kind, c.change))
			require.Empty(t, faults)
			require.Equal(t, c.want, warnings)
		})
	}
}
