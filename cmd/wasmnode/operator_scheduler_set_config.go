package main

import (
	"errors"
	"strconv"

	nomad "github.com/hashicorp/nomad/api"
)

type operatorSchedulerSetConfigCommand struct{ meta }

// Synopsis implements [subcommand].
func (*operatorSchedulerSetConfigCommand) Synopsis() string {
	return "Change how the scheduler decides"
}

// Help implements [subcommand].
func (*operatorSchedulerSetConfigCommand) Help() string {
	return `Usage: wasmnode operator scheduler set-config [options]

  Changes how the scheduler decides. What no option names stays as it is. Jobs that wait for
  room are looked at again at once.

Options:

  -scheduler-algorithm=binpack|spread    The node first that is fullest, or emptiest.
  -memory-oversubscription=true|false    Tasks may use up to their memory_max.
  -reject-job-registration=true|false    Only management tokens may give jobs more to run.
  -pause-eval-broker=true|false          Nothing is decided; it is done afterwards.
  -preempt-batch-scheduler=true|false    Batch jobs may preempt less important ones.
  -preempt-service-scheduler=true|false  Service jobs may.
  -preempt-sysbatch-scheduler=true|false Sysbatch jobs may.
  -preempt-system-scheduler=true|false   System jobs may.
  -check-index=N                         Only if its modify index is N.` + commonOptions
}

// Run implements [subcommand].
func (c *operatorSchedulerSetConfigCommand) Run(args []string) int {
	f := c.flags("operator scheduler set-config")
	var s *nomad.SchedulerConfiguration
	var check uint64
	checked := false
	var changes []func()
	boolean := func(name string, of func() *bool) {
		f.BoolFunc(name, "", func(text string) error {
			value, err := strconv.ParseBool(text)
			changes = append(changes, func() { *of() = value })
			return err
		})
	}
	boolean("memory-oversubscription", func() *bool { return &s.MemoryOversubscriptionEnabled })
	boolean("reject-job-registration", func() *bool { return &s.RejectJobRegistration })
	boolean("pause-eval-broker", func() *bool { return &s.PauseEvalBroker })
	boolean("preempt-batch-scheduler", func() *bool { return &s.PreemptionConfig.BatchSchedulerEnabled })
	boolean("preempt-service-scheduler", func() *bool { return &s.PreemptionConfig.ServiceSchedulerEnabled })
	boolean("preempt-sysbatch-scheduler", func() *bool { return &s.PreemptionConfig.SysBatchSchedulerEnabled })
	boolean("preempt-system-scheduler", func() *bool { return &s.PreemptionConfig.SystemSchedulerEnabled })
	f.Func("scheduler-algorithm", "", func(text string) error {
		changes = append(changes, func() { s.SchedulerAlgorithm = nomad.SchedulerAlgorithm(text) })
		return nil
	})
	f.Func("check-index", "", func(text string) (err error) {
		checked = true
		check, err = strconv.ParseUint(text, 10, 64)
		return err
	})
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	answer, _, err := client.Operator().SchedulerGetConfiguration(nil)
	if err != nil {
		return c.fail(f, err)
	}
	s = answer.SchedulerConfig
	for _, change := range changes {
		change()
	}
	if checked {
		s.ModifyIndex = check
	}
	// Of what was read meanwhile nothing is to be undone.
	written, _, err := client.Operator().SchedulerCASConfiguration(s, nil)
	switch {
	case err != nil:
		return c.fail(f, err)
	case !written.Updated:
		return c.fail(f, errors.New("scheduler configuration could not be atomically updated, please try again"))
	}
	c.ui.Output("Scheduler configuration updated!")
	return 0
}
