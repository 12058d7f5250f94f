package main

import (
	"strconv"

	nomad "github.com/hashicorp/nomad/api"
)

type operatorSchedulerGetConfigCommand struct{ meta }

// Synopsis implements [subcommand].
func (*operatorSchedulerGetConfigCommand) Synopsis() string {
	return "Show how the scheduler decides"
}

// Help implements [subcommand].
func (*operatorSchedulerGetConfigCommand) Help() string {
	return `Usage: wasmnode operator scheduler get-config [options]

  Shows how the scheduler decides: on which node first, and which types of jobs may
  preempt less important ones.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *operatorSchedulerGetConfigCommand) Run(args []string) int {
	f := c.flags("operator scheduler get-config")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	answer, _, err := client.Operator().SchedulerGetConfiguration(nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(answer)
	}
	c.pairs(schedulerPairs(answer.SchedulerConfig))
	return 0
}

func schedulerPairs(s *nomad.SchedulerConfiguration) [][2]string {
	p := s.PreemptionConfig
	return [][2]string{
		{"Scheduler Algorithm", string(s.SchedulerAlgorithm)},
		{"Memory Oversubscription", strconv.FormatBool(s.MemoryOversubscriptionEnabled)},
		{"Reject Job Registration", strconv.FormatBool(s.RejectJobRegistration)},
		{"Pause Eval Broker", strconv.FormatBool(s.PauseEvalBroker)},
		{"Preemption System Scheduler", strconv.FormatBool(p.SystemSchedulerEnabled)},
		{"Preemption Service Scheduler", strconv.FormatBool(p.ServiceSchedulerEnabled)},
		{"Preemption Batch Scheduler", strconv.FormatBool(p.BatchSchedulerEnabled)},
		{"Preemption SysBatch Scheduler", strconv.FormatBool(p.SysBatchSchedulerEnabled)},
		{"Node Limit For Feasibility Checks", strconv.FormatUint(uint64(s.NodeLimitForFeasibilityChecks), 10)},
		{"Modify Index", strconv.FormatUint(s.ModifyIndex, 10)},
	}
}
