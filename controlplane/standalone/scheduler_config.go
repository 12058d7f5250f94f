package standalone

import (
	nomad "github.com/hashicorp/nomad/api"
)

// defaultSchedulerConfig is that of Nomad's community edition.
var defaultSchedulerConfig = &nomad.SchedulerConfiguration{
	SchedulerAlgorithm: nomad.SchedulerAlgorithmBinpack,
	PreemptionConfig:   nomad.PreemptionConfig{SystemSchedulerEnabled: true},
	CreateIndex:        1,
	ModifyIndex:        1,
}

// firstSchedulerConfig is in force until one is set; nil is the default.
func firstSchedulerConfig(c *nomad.SchedulerConfiguration) *nomad.SchedulerConfiguration {
	if c == nil {
		return defaultSchedulerConfig
	}
	first := *c
	first.CreateIndex, first.ModifyIndex = 1, 1
	return &first
}

// SchedulerConfiguration returns how the scheduler decides.
func (cp *ControlPlane) SchedulerConfiguration() *nomad.SchedulerConfiguration {
	cp.mu.RLock()
	defer cp.mu.RUnlock()
	return cp.scheduler
}

// SetSchedulerConfiguration changes how the scheduler decides from now on, and has it decide
// again for the jobs that wait. The indexes in c do not count. With check, nothing is changed,
// and false returned, unless the present configuration's ModifyIndex is *check. What cannot be
// done is errdefs.InvalidArgument.
func (cp *ControlPlane) SetSchedulerConfiguration(c nomad.SchedulerConfiguration, check *uint64) (updated bool, err error) {
	switch c.SchedulerAlgorithm {
	case "":
		c.SchedulerAlgorithm = nomad.SchedulerAlgorithmBinpack
	case nomad.SchedulerAlgorithmBinpack, nomad.SchedulerAlgorithmSpread:
	default:
		return false, invalid("invalid scheduler algorithm %q: %q or %q",
			c.SchedulerAlgorithm, nomad.SchedulerAlgorithmBinpack, nomad.SchedulerAlgorithmSpread)
	}
	if c.NodeLimitForFeasibilityChecks != 0 {
		return false, invalid("NodeLimitForFeasibilityChecks is %d: every node is looked at here, so that it can only be 0", c.NodeLimitForFeasibilityChecks)
	}
	err = cp.write(func(t *tx) error {
		if check != nil && *check != t.scheduler.ModifyIndex {
			return nil
		}
		updated = true
		resumed := t.scheduler.PauseEvalBroker && !c.PauseEvalBroker
		t.touched[TableScheduler] = t.at()
		c.CreateIndex, c.ModifyIndex = t.scheduler.CreateIndex, t.at()
		t.scheduler = &c
		if resumed {
			t.evaluateDue()
		}
		t.nodeChanged()
		return nil
	})
	return updated && err == nil, err
}

// mayPreempt reports whether jobs of a type may preempt others.
func mayPreempt(c *nomad.SchedulerConfiguration, jobType string) bool {
	switch p := c.PreemptionConfig; jobType {
	case nomad.JobTypeService:
		return p.ServiceSchedulerEnabled
	case nomad.JobTypeBatch:
		return p.BatchSchedulerEnabled
	case nomad.JobTypeSystem:
		return p.SystemSchedulerEnabled
	case nomad.JobTypeSysbatch:
		return p.SysBatchSchedulerEnabled
	}
	return false
}
