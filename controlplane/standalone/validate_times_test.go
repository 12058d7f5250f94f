package standalone

import (
	"fmt"
	"math"
	"strings"
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

func identity(id nomad.WorkloadIdentity) func(*nomad.Job) {
	return group(func(g *nomad.TaskGroup) { g.Tasks[0].Identities = []*nomad.WorkloadIdentity{&id} })
}

func identities(all ...nomad.WorkloadIdentity) func(*nomad.Job) {
	return group(func(g *nomad.TaskGroup) {
		for _, w := range all {
			g.Tasks[0].Identities = append(g.Tasks[0].Identities, &w)
		}
	})
}

// named are as many identities.
func named(n int) (all []nomad.WorkloadIdentity) {
	for i := range n {
		all = append(all, nomad.WorkloadIdentity{Name: fmt.Sprint("i", i)})
	}
	return all
}

func action(name string) func(*nomad.Job) {
	return group(func(g *nomad.TaskGroup) { g.Tasks[0].Actions = []*nomad.Action{{Name: name, Command: "x"}} })
}

func migrated(m nomad.MigrateStrategy) func(*nomad.Job) {
	return group(func(g *nomad.TaskGroup) { g.Migrate = &m })
}

func apart(d nomad.DisconnectStrategy) func(*nomad.Job) {
	return group(func(g *nomad.TaskGroup) { g.Disconnect = &d })
}

func within(function string, attempts int, interval, most time.Duration) func(*nomad.Job) {
	return rescheduled(nomad.ReschedulePolicy{DelayFunction: &function, Attempts: &attempts, Interval: &interval, Delay: new(30 * time.Second), MaxDelay: &most, Unlimited: new(false)})
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
		"restart interval":               {"batch", restarts(nomad.RestartPolicy{Interval: new(5*time.Second - 1), Attempts: new(0), Mode: new("fail")}), "restart: interval: Interval can not be less than 5s (got 4.999999999s)"},
		"restarts fit":                   {"batch", restarts(nomad.RestartPolicy{Interval: new(10 * time.Second), Attempts: new(2), Delay: new(5 * time.Second)}), ""},
		"restarts do not":                {"batch", restarts(nomad.RestartPolicy{Interval: new(10 * time.Second), Attempts: new(2), Delay: new(6 * time.Second)}), "restart: Nomad can't restart the TaskGroup 2 times in an interval of 10s with a delay of 6s"},
		"reschedule interval":            {"batch", rescheduled(nomad.ReschedulePolicy{Interval: new(15*time.Second - 1), Attempts: new(1), Unlimited: new(false)}), "reschedule: interval: Interval cannot be less than 15s (got 14.999999999s)"},
		"reschedule for ever":            {"batch", rescheduled(nomad.ReschedulePolicy{Unlimited: new(true), Attempts: new(0)}), ""},
		"reschedule ambiguous":           {"batch", rescheduled(nomad.ReschedulePolicy{Unlimited: new(true), Attempts: new(1), Interval: new(time.Hour)}), "reschedule: Reschedule Policy with Attempts = 1, Interval = 1h0m0s, and Unlimited = true is ambiguous: If Attempts >0, Unlimited cannot also be set to true"},
		"reschedules fit":                {"batch", rescheduled(nomad.ReschedulePolicy{DelayFunction: new("constant"), Interval: new(18 * time.Second), Attempts: new(3), Delay: new(6 * time.Second), Unlimited: new(false)}), ""},
		"reschedules do not":             {"batch", rescheduled(nomad.ReschedulePolicy{DelayFunction: new("constant"), Interval: new(17 * time.Second), Attempts: new(3), Delay: new(6 * time.Second), Unlimited: new(false)}), `reschedule: interval: Nomad can only make 2 attempts in 17s with initial delay 6s and delay function "constant". Set the interval to at least 18s to accommodate 3 attempts`},
		"reschedules that double":        {"batch", within("exponential", 10, 5*time.Minute, time.Hour), `reschedule: interval: Nomad can only make 4 attempts in 5m0s with initial delay 30s, delay function "exponential", and delay ceiling 1h0m0s. Set the interval to at least 3h32m0s to accommodate 10 attempts`},
		"to a ceiling":                   {"batch", within("exponential", 10, 5*time.Minute, time.Minute), `reschedule: interval: Nomad can only make 5 attempts in 5m0s with initial delay 30s, delay function "exponential", and delay ceiling 1m0s. Set the interval to at least 9m0s to accommodate 10 attempts`},
		"that just fit":                  {"batch", within("exponential", 3, 2*time.Minute+1, time.Hour), ""},
		"that just do not":               {"batch", within("exponential", 3, 2*time.Minute, time.Hour), `reschedule: interval: Nomad can only make 2 attempts in 2m0s with initial delay 30s, delay function "exponential", and delay ceiling 1h0m0s. Set the interval to at least 2m0s to accommodate 3 attempts`},
		"that grow":                      {"batch", within("fibonacci", 10, 5*time.Minute, time.Hour), `reschedule: interval: Nomad can only make 6 attempts in 5m0s with initial delay 30s, delay function "fibonacci", and delay ceiling 1h0m0s. Set the interval to at least 27m30s to accommodate 10 attempts`},
		"that grow to a ceiling":         {"batch", within("fibonacci", 10, 5*time.Minute, time.Minute), `reschedule: interval: Nomad can only make 8 attempts in 5m0s with initial delay 30s, delay function "fibonacci", and delay ceiling 1m0s. Set the interval to at least 7m0s to accommodate 10 attempts`},
		"that grow past one":             {"batch", within("fibonacci", 6, 2*time.Minute, 100*time.Second), `reschedule: interval: Nomad can only make 5 attempts in 2m0s with initial delay 30s, delay function "fibonacci", and delay ceiling 1m40s. Set the interval to at least 3m20s to accommodate 6 attempts`},
		"more than there is time":        {"batch", within("exponential", math.MaxInt, time.Hour, time.Hour), fmt.Sprintf(`reschedule: interval: Nomad can only make 7 attempts in 1h0m0s with initial delay 30s, delay function "exponential", and delay ceiling 1h0m0s. Set the interval to at least 2562047h47m16.854775807s to accommodate %d attempts`, math.MaxInt)},
		"ends within a deployment":       {"service", killTimeout(30*time.Second, 30*time.Second), ""},
		"does not":                       {"service", killTimeout(31*time.Second, 30*time.Second), `task "t": kill_timeout: KillTimeout (31s) longer than the group's ProgressDeadline (30s)`},
		"no deadline":                    {"service", killTimeout(31*time.Second, 0), ""},
		"group shutdown_delay":           {"service", group(func(g *nomad.TaskGroup) { g.ShutdownDelay = new(-time.Second) }), "shutdown_delay: ShutdownDelay must be a positive value: it is -1s"},
		"max_run_duration":               {"batch", group(func(g *nomad.TaskGroup) { g.MaxRunDuration = new(time.Hour) }), ""},
		"disk":                           {"batch", group(func(g *nomad.TaskGroup) { g.EphemeralDisk.SizeMB = new(9) }), "ephemeral_disk: size: minimum DiskMB value is 10; got 9"},
		"identity":                       {"batch", identity(nomad.WorkloadIdentity{Name: "a b"}), `task "t": identity "a b": invalid name "a b". Must match regex ^[a-zA-Z0-9-_]{1,128}$`},
		"identity change_mode":           {"batch", identity(nomad.WorkloadIdentity{Name: "a", ChangeMode: "odd"}), `task "t": identity "a": invalid change_mode: odd`},
		"identity change_signal":         {"batch", identity(nomad.WorkloadIdentity{Name: "a", ChangeMode: "signal"}), `task "t": identity "a": change_signal must be specified when using change_mode="signal"`},
		"identity, a signal for nothing": {"batch", identity(nomad.WorkloadIdentity{Name: "a", ChangeMode: "restart", ChangeSignal: "sighup"}), `task "t": identity "a": can only use change_signal="SIGHUP" with change_mode="signal"`},
		"identity, an empty audience":    {"batch", identity(nomad.WorkloadIdentity{Name: "a", Audience: []string{"x", ""}}), `task "t": identity "a": an empty string is an invalid audience (2)`},
		"identity, the default's ttl":    {"batch", identity(nomad.WorkloadIdentity{TTL: time.Hour}), `task "t": identity "default": ttl for default identity not yet supported`},
		"identity, a path for nothing":   {"batch", identity(nomad.WorkloadIdentity{Name: "a", Filepath: "local/t"}), `task "t": identity "a": file parameter must be true in order to specify filepath`},
		"identity, a path outside":       {"batch", identity(nomad.WorkloadIdentity{Name: "a", File: true, Filepath: "local/../../t"}), `task "t": identity "a": filepath: "local/../../t" is outside the task's directory`},
		"identity, a path inside":        {"batch", identity(nomad.WorkloadIdentity{Name: "a", File: true, Filepath: "/local/t"}), ""},
		"identity, two of a name":        {"batch", identities(nomad.WorkloadIdentity{Name: "a"}, nomad.WorkloadIdentity{Name: "a"}), `task "t": identity "a": there are two of that name`},
		"identity, two defaults":         {"batch", identities(nomad.WorkloadIdentity{}, nomad.WorkloadIdentity{Name: "default"}), `task "t": identity "default": Duplicate default identities found`},
		"identities, most":               {"batch", identities(named(32)...), ""},
		"identities, more":               {"batch", identities(named(33)...), `task "t": identity: there are 33 identities: a task can have 32`},
		"identity ttl":                   {"batch", identity(nomad.WorkloadIdentity{Name: "a", TTL: -1}), `task "t": identity "a": ttl must be >= 0: it is -1ns`},
		"action":                         {"batch", action("a b"), `task "t": action: invalid name 'a b'`},
		"a long action":                  {"batch", action(strings.Repeat("a", 128)), ""},
		"a longer action":                {"batch", action(strings.Repeat("a", 129)), `task "t": action: invalid name '` + strings.Repeat("a", 129) + `'`},
		"migrate":                        {"service", migrated(nomad.MigrateStrategy{HealthCheck: new("manual")}), `migrate: health_check: Invalid HealthCheck: "manual" (it is one of checks, task_states)`},
		"migrate without":                {"service", migrated(nomad.MigrateStrategy{HealthCheck: new("")}), `migrate: health_check: Missing HealthCheck`},
		"migrate max_parallel":           {"service", migrated(nomad.MigrateStrategy{MaxParallel: new(-1)}), `migrate: max_parallel: MaxParallel must be >= 0 but found -1`},
		"migrate min_healthy_time":       {"service", migrated(nomad.MigrateStrategy{MinHealthyTime: new(10 * time.Minute)}), `migrate: min_healthy_time: MinHealthyTime must be less than HealthyDeadline: 10m0s > 5m0s`},
		"migrate just":                   {"service", migrated(nomad.MigrateStrategy{MinHealthyTime: new(5 * time.Minute)}), ""},
		"migrate batch":                  {"batch", migrated(nomad.MigrateStrategy{}), `migrate: Job type "batch" does not allow migrate block`},
		"disconnect both":                {"service", apart(nomad.DisconnectStrategy{LostAfter: new(time.Hour), StopOnClientAfter: new(time.Hour)}), `disconnect: Disconnect cannot be configured with both lost_after and stop_after`},
		"disconnect lost_after":          {"service", apart(nomad.DisconnectStrategy{LostAfter: new(-time.Hour)}), `disconnect: lost_after cannot be a negative duration: it is -1h0m0s`},
		"disconnect stop_after":          {"service", apart(nomad.DisconnectStrategy{StopOnClientAfter: new(-time.Hour)}), `disconnect: stop_after cannot be a negative duration: it is -1h0m0s`},
		"disconnect system":              {"system", apart(nomad.DisconnectStrategy{StopOnClientAfter: new(time.Hour)}), `disconnect: stop_after can only be used with service or batch job types`},
		"disconnect reconcile":           {"service", apart(nomad.DisconnectStrategy{Reconcile: new("odd")}), `disconnect: reconcile option is invalid: odd`},
		"max_run_duration of none":       {"batch", group(func(g *nomad.TaskGroup) { g.MaxRunDuration = new(time.Duration) }), "max_run_duration: MaxRunDuration must be greater than zero: it is 0s"},
		"max_run_duration for ever":      {"service", group(func(g *nomad.TaskGroup) { g.MaxRunDuration = new(time.Hour) }), `max_run_duration: Job type "service" does not allow max_run_duration`},
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
		options := map[string]string{"checksum": checksum}
		if checksum == "" {
			options = nil
		}
		return &nomad.Task{Artifacts: []*nomad.TaskArtifact{{GetterSource: new("http://x/y"), RelativeDest: &dest, GetterOptions: options}}}
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
		"checksum":            {artifact("local", "md5:"+strings.Repeat("0f", 16)), ""},
		"a short checksum":    {artifact("local", "sha256:00ff"), "artifact 1: invalid sha256 checksum: 00ff"},
		"checksum of no kind": {artifact("local", "00ff"), `artifact 1: checksum must be given as "type:value"; got "00ff"`},
		"a blank checksum":    {artifact("local", " "), "artifact 1: checksum value cannot be empty"},
		"a payload":           {&nomad.Task{DispatchPayload: &nomad.DispatchPayloadConfig{File: "../../out"}}, ""},
		"a payload outside":   {&nomad.Task{DispatchPayload: &nomad.DispatchPayloadConfig{File: "../../../out"}}, "dispatch_payload: destination escapes allocation directory"},
		"logs of a disk":      {&nomad.Task{LogConfig: &nomad.LogConfig{MaxFiles: new(3), MaxFileSizeMB: new(3)}}, ""},
		"logs beyond one":     {&nomad.Task{LogConfig: &nomad.LogConfig{MaxFiles: new(5), MaxFileSizeMB: new(2), Disabled: new(true)}}, "logs: log storage (10 MB) must be less than requested disk capacity (10 MB)"},

		"checksum from file":  {artifact("local", "file:http://x/SUMS"), ""},
		"checksum of letters": {artifact("local", "md5:zz"), "artifact 1: invalid checksum: encoding/hex: invalid byte: U+007A 'z'"},
		"checksum of a kind":  {artifact("local", "odd:00"), "artifact 1: unsupported checksum type: odd"},
		"a template outside":  {templates("../../../out"), "template 1: destination escapes allocation directory"},
		"templates":           {templates("local/a", "local/b"), ""},
		"templates alike":     {templates("local/a", "local/b", "local/a"), "Template 3 has same destination as 1"},
	} {
		t.Run(name, func(t *testing.T) {
			faults, _ := s.ValidateJob(testJob("j", "batch", group(func(g *nomad.TaskGroup) {
				t := g.Tasks[0]
				t.Artifacts, t.Templates, t.DispatchPayload = c.files.Artifacts, c.files.Templates, c.files.DispatchPayload
				if c.files.LogConfig != nil {
					t.LogConfig = c.files.LogConfig
				}
			})))
			if c.fault == "" {
				require.Empty(t, faults)
			} else {
				require.Equal(t, []string{`group "g": task "t": ` + c.fault}, faults)
			}
		})
	}
}
