package standalone

import (
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func group(change func(*nomad.TaskGroup)) func(*nomad.Job) {
	return func(j *nomad.Job) { change(j.TaskGroups[0]) }
}

func restarts(p nomad.RestartPolicy) func(*nomad.Job) {
	return group(func(g *nomad.TaskGroup) { g.RestartPolicy = &p })
}

func rescheduled(p nomad.ReschedulePolicy) func(*nomad.Job) {
	return group(func(g *nomad.TaskGroup) { g.ReschedulePolicy = &p })
}

func killTimeout(kill, progress time.Duration) func(*nomad.Job) {
	return group(func(g *nomad.TaskGroup) {
		g.Tasks[0].KillTimeout = &kill
		g.Update = &nomad.UpdateStrategy{MinHealthyTime: new(time.Second), HealthyDeadline: new(20 * time.Second), ProgressDeadline: &progress}
	})
}

// What is refused, and what just is not, are as Nomad was seen to do it.
func TestTheBoundsOfTimes(t *testing.T) {
	s := withNode(t, "")
	for name, c := range map[string]struct {
		kind   string
		change func(*nomad.Job)
		fault  string
	}{
		"restart interval":          {"batch", restarts(nomad.RestartPolicy{Interval: new(5*time.Second - 1), Attempts: new(0), Mode: new("fail")}), "restart: interval: Interval can not be less than 5s (got 4.999999999s)"},
		"restarts fit":              {"batch", restarts(nomad.RestartPolicy{Interval: new(10 * time.Second), Attempts: new(2), Delay: new(5 * time.Second)}), ""},
		"restarts do not":           {"batch", restarts(nomad.RestartPolicy{Interval: new(10 * time.Second), Attempts: new(2), Delay: new(6 * time.Second)}), "restart: Nomad can't restart the TaskGroup 2 times in an interval of 10s with a delay of 6s"},
		"reschedule interval":       {"batch", rescheduled(nomad.ReschedulePolicy{Interval: new(15*time.Second - 1), Attempts: new(1), Unlimited: new(false)}), "reschedule: interval: Interval cannot be less than 15s (got 14.999999999s)"},
		"reschedule for ever":       {"batch", rescheduled(nomad.ReschedulePolicy{Unlimited: new(true), Attempts: new(0)}), ""},
		"reschedule ambiguous":      {"batch", rescheduled(nomad.ReschedulePolicy{Unlimited: new(true), Attempts: new(1), Interval: new(time.Hour)}), "reschedule: Reschedule Policy with Attempts = 1, Interval = 1h0m0s, and Unlimited = true is ambiguous: If Attempts >0, Unlimited cannot also be set to true"},
		"reschedules fit":           {"batch", rescheduled(nomad.ReschedulePolicy{DelayFunction: new("constant"), Interval: new(18 * time.Second), Attempts: new(3), Delay: new(6 * time.Second), Unlimited: new(false)}), ""},
		"reschedules do not":        {"batch", rescheduled(nomad.ReschedulePolicy{DelayFunction: new("constant"), Interval: new(17 * time.Second), Attempts: new(3), Delay: new(6 * time.Second), Unlimited: new(false)}), `reschedule: interval: Nomad can only make 2 attempts in 17s with initial delay 6s and delay function "constant"`},
		"ends within a deployment":  {"service", killTimeout(30*time.Second, 30*time.Second), ""},
		"does not":                  {"service", killTimeout(31*time.Second, 30*time.Second), `task "t": kill_timeout: KillTimeout (31s) longer than the group's ProgressDeadline (30s)`},
		"no deadline":               {"service", killTimeout(31*time.Second, 0), ""},
		"group shutdown_delay":      {"service", group(func(g *nomad.TaskGroup) { g.ShutdownDelay = new(-time.Second) }), "shutdown_delay: ShutdownDelay must be a positive value: it is -1s"},
		"max_run_duration":          {"batch", group(func(g *nomad.TaskGroup) { g.MaxRunDuration = new(time.Hour) }), ""},
		"max_run_duration for ever": {"service", group(func(g *nomad.TaskGroup) { g.MaxRunDuration = new(time.Hour) }), `max_run_duration: Job type "service" does not allow max_run_duration`},
	} {
		t.Run(name, func(t *testing.T) {
			faults, _ := s.ValidateJob(testJob("j", c.kind, c.change))
			if c.fault == "" {
				require.Empty(t, faults)
			} else {
				require.Equal(t, []string{`group "g": ` + c.fault}, faults)
			}
		})
	}
}

func TestFilesThatCannotBeWhereTheyAreToBeAreFaults(t *testing.T) {
	s := withNode(t, "")
	artifact := func(dest, checksum string) *nomad.Task {
		return &nomad.Task{Artifacts: []*nomad.TaskArtifact{{GetterSource: new("http://x/y"), RelativeDest: &dest, GetterOptions: map[string]string{"checksum": checksum}}}}
	}
	templates := func(dests ...string) *nomad.Task {
		var list []*nomad.Template
		for _, d := range dests {
			list = append(list, &nomad.Template{EmbeddedTmpl: new("x"), DestPath: &d})
		}
		return &nomad.Task{Templates: list}
	}
	for name, c := range map[string]struct {
		files *nomad.Task
		fault string
	}{
		"beside the task":     {artifact("../alloc/out", ""), ""},
		"outside":             {artifact("../../out", ""), "artifact 1: destination escapes allocation directory"},
		"the directory":       {artifact("../..", ""), "artifact 1: destination escapes allocation directory"},
		"absolute is within":  {artifact("/out", ""), ""},
		"known when it runs":  {artifact("../../${NOMAD_META_x}", ""), ""},
		"checksum":            {artifact("local", "sha256:00ff"), ""},
		"checksum from file":  {artifact("local", "file:http://x/SUMS"), ""},
		"checksum of letters": {artifact("local", "md5:zz"), "artifact 1: invalid checksum: encoding/hex: invalid byte: U+007A 'z'"},
		"checksum of a kind":  {artifact("local", "odd:00"), "artifact 1: unsupported checksum type: odd"},
		"a template outside":  {templates("../../../out"), "template 1: destination escapes allocation directory"},
		"templates":           {templates("local/a", "local/b"), ""},
		"templates alike":     {templates("local/a", "local/b", "local/a"), "Template 3 has same destination as 1"},
	} {
		t.Run(name, func(t *testing.T) {
			faults, _ := s.ValidateJob(testJob("j", "batch", group(func(g *nomad.TaskGroup) {
				g.Tasks[0].Artifacts, g.Tasks[0].Templates = c.files.Artifacts, c.files.Templates
			})))
			if c.fault == "" {
				require.Empty(t, faults)
			} else {
				require.Equal(t, []string{`group "g": task "t": ` + c.fault}, faults)
			}
		})
	}
}
