package standalone

import (
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestTheBoundsOfAnUpdate(t *testing.T) {
	s := withNode(t, "")
	for name, c := range map[string]struct {
		kind   string
		change func(*nomad.UpdateStrategy)
		fault  string
	}{
		"none":               {"service", func(*nomad.UpdateStrategy) {}, ""},
		"all at once":        {"service", func(u *nomad.UpdateStrategy) { u.MaxParallel = new(0) }, ""},
		"max_parallel":       {"service", func(u *nomad.UpdateStrategy) { u.MaxParallel = new(-1) }, "max_parallel: Max parallel can not be less than zero: -1 < 0"},
		"canary":             {"service", func(u *nomad.UpdateStrategy) { u.Canary = new(-1) }, "canary: Canary count can not be less than zero: -1 < 0"},
		"canaries":           {"service", func(u *nomad.UpdateStrategy) { u.Canary = new(maxCount + 1) }, "canary: a job has at most 50000 allocations: it is 50001"},
		"auto_promote":       {"service", func(u *nomad.UpdateStrategy) { u.AutoPromote = new(true) }, "auto_promote: Auto Promote requires a Canary count greater than zero"},
		"health_check":       {"service", func(u *nomad.UpdateStrategy) { u.HealthCheck = new("x") }, `health_check: Invalid health check given: "x" (it is one of checks, task_states, manual)`},
		"min_healthy_time":   {"service", func(u *nomad.UpdateStrategy) { u.MinHealthyTime = new(-time.Second) }, "min_healthy_time: Minimum healthy time may not be less than zero: -1s"},
		"too long":           {"service", func(u *nomad.UpdateStrategy) { u.MinHealthyTime = new(5 * time.Minute) }, "min_healthy_time: Minimum healthy time must be less than healthy deadline: 5m0s > 5m0s"},
		"healthy_deadline":   {"service", func(u *nomad.UpdateStrategy) { u.HealthyDeadline = new(time.Duration(0)) }, "healthy_deadline: Healthy deadline must be greater than zero: 0s"},
		"deadlines":          {"service", func(u *nomad.UpdateStrategy) { u.ProgressDeadline = new(5 * time.Minute) }, "healthy_deadline: Healthy deadline must be less than progress deadline: 5m0s > 5m0s"},
		"without a deadline": {"service", func(u *nomad.UpdateStrategy) { u.ProgressDeadline = new(time.Duration(0)) }, ""},
		"progress_deadline":  {"service", func(u *nomad.UpdateStrategy) { u.ProgressDeadline = new(-time.Second) }, "progress_deadline: Progress deadline must be zero or greater: -1s"},
		"stagger":            {"service", func(u *nomad.UpdateStrategy) { u.Stagger = new(-time.Second) }, "stagger: Stagger must be greater than zero: -1s"},
		"of a system job": {"system", func(u *nomad.UpdateStrategy) {
			u.Canary, u.AutoPromote, u.AutoRevert, u.ProgressDeadline = new(100), new(true), new(true), new(time.Hour)
		}, ""},
		"batch": {"batch", func(*nomad.UpdateStrategy) {}, `Job type "batch" does not allow update block`},
	} {
		t.Run(name, func(t *testing.T) {
			u := nomad.DefaultUpdateStrategy()
			c.change(u)
			faults, warnings := s.ValidateJob(testJob("j", c.kind, func(j *nomad.Job) { j.TaskGroups[0].Update = u }))
			require.Empty(t, warnings)
			if c.fault == "" {
				require.Empty(t, faults)
			} else {
				require.Equal(t, []string{`group "g": update: ` + c.fault}, faults)
			}
		})
	}
}
