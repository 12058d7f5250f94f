package schedule

import (
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// A person may have what failed replaced though its policy allows no attempt any more, or
// not yet.
func TestWhatFailedIsReplacedOnDemand(t *testing.T) {
	for name, policy := range map[string]*nomad.ReschedulePolicy{
		"no attempts": {Attempts: new(0), Unlimited: new(false), Interval: new(time.Hour)},
		"later":       {Unlimited: new(true), Delay: new(time.Hour), MaxDelay: new(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			job := lasting(1, func(j *nomad.Job) { j.TaskGroups[0].ReschedulePolicy = policy })
			s := &scheduler{Input: Input{Job: job, Now: time.Unix(100, 0)}, res: &Result{Desired: map[string]*structs.DesiredUpdates{"g": {}}}}
			a := &Alloc{Allocation: &structs.Allocation{ID: "a", Job: job, TaskGroup: "g", ClientStatus: structs.ClientFailed}}
			require.Empty(t, s.failed(a, wanted{group: job.TaskGroups[0], previous: a}))
			s.ForceReschedule = true
			again := s.failed(a, wanted{group: job.TaskGroups[0], previous: a})
			require.Len(t, again, 1)
			require.NotNil(t, again[0].reschedule, "the failed one is stopped for its successor")
			require.Equal(t, s.Now.UnixNano(), again[0].reschedule.Time)
		})
	}
}
