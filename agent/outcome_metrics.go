package agent

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/wasmnode/wasmnode/node"
	"github.com/wasmnode/wasmnode/structs"
)

// outcomes count what became of tasks and allocations since the agent started. They have
// no label of a job or an allocation, so that they stay when those are forgotten. Their
// labels are bounded by the types of events, the ways of ending and the client statuses.
type outcomes struct {
	restarts, oomKills   prometheus.Counter
	exits, events, ended *prometheus.CounterVec
}

// How a task's run ended.
const (
	exitSuccess = "success"
	exitFailure = "failure"
	exitOOM     = "oom_killed"
)

func newOutcomes() *outcomes {
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: name, Help: help + " Since the agent started."}
	}
	o := &outcomes{
		restarts: prometheus.NewCounter(counter("wasmnode_task_restarts_total", "Restarts of tasks.")),
		oomKills: prometheus.NewCounter(counter("wasmnode_task_oom_kills_total", "Tasks that were killed for want of memory.")),
		exits:    prometheus.NewCounterVec(counter("wasmnode_task_exits_total", "Ends of tasks' runs, by outcome: success, failure or oom_killed."), []string{"outcome"}),
		events:   prometheus.NewCounterVec(counter("wasmnode_task_events_total", "Events of tasks, by type."), []string{"type"}),
		ended:    prometheus.NewCounterVec(counter("wasmnode_allocations_ended_total", "Allocations that ended, by client status."), []string{"status"}),
	}
	// A rate needs the zero before the first.
	for _, outcome := range []string{exitSuccess, exitFailure, exitOOM} {
		o.exits.WithLabelValues(outcome)
	}
	for _, status := range []structs.ClientStatus{structs.ClientComplete, structs.ClientFailed, structs.ClientLost} {
		o.ended.WithLabelValues(string(status))
	}
	return o
}

func (o *outcomes) all() []prometheus.Collector {
	return []prometheus.Collector{o.restarts, o.oomKills, o.exits, o.events, o.ended}
}

// Describe implements [prometheus.Collector].
func (o *outcomes) Describe(out chan<- *prometheus.Desc) {
	for _, c := range o.all() {
		c.Describe(out)
	}
}

// Collect implements [prometheus.Collector].
func (o *outcomes) Collect(out chan<- prometheus.Metric) {
	for _, c := range o.all() {
		c.Collect(out)
	}
}

// killed is how many tasks were killed for want of memory.
func (o *outcomes) killed() float64 {
	var m dto.Metric
	_ = o.oomKills.Write(&m) // a counter can always be written
	return m.Counter.GetValue()
}

// count counts what is new in an allocation's state. Before is as it was; nil: unknown.
func (o *outcomes) count(before *structs.Allocation, now *structs.AllocationState) {
	if now.ClientStatus.Terminal() && (before == nil || !before.ClientStatus.Terminal()) {
		o.ended.WithLabelValues(string(now.ClientStatus)).Inc()
	}
	for name, s := range now.TaskStates {
		var was *structs.TaskState
		if before != nil {
			was = before.TaskStates[name]
		}
		o.countTask(was, s)
	}
}

func (o *outcomes) countTask(before, now *structs.TaskState) {
	var restarts uint64
	if before != nil {
		restarts = before.Restarts
	}
	o.restarts.Add(float64(now.Restarts - min(restarts, now.Restarts)))
	for _, e := range newEvents(before, now) {
		o.events.WithLabelValues(e.Type).Inc()
		if e.Type == structs.EventTerminated {
			o.countExit(e.Exit())
		}
	}
}

// newEvents are the events that a task had not had before; nil: nothing was known of it.
func newEvents(before, now *structs.TaskState) (list []*structs.TaskEvent) {
	var last int64
	if before != nil {
		for _, e := range before.Events {
			last = max(last, e.Time)
		}
	}
	for _, e := range now.Events {
		if e.Time > last {
			list = append(list, e)
		}
	}
	return list
}

func (o *outcomes) countExit(exit *structs.ExitResult) {
	switch {
	case exit == nil:
	case exit.OOMKilled:
		o.oomKills.Inc()
		o.exits.WithLabelValues(exitOOM).Inc()
	case exit.Successful():
		o.exits.WithLabelValues(exitSuccess).Inc()
	default:
		o.exits.WithLabelValues(exitFailure).Inc()
	}
}

// counted is a control plane whose node's reports are counted and logged, once each: what it
// already knew of an allocation is not, once more.
type counted struct {
	node.ControlPlane
	known    func(allocID string) *structs.Allocation
	outcomes *outcomes
	log      *eventLog
}

// UpdateAllocations implements [node.ControlPlane].
func (c counted) UpdateAllocations(ctx context.Context, nodeID string, states []*structs.AllocationState) error {
	before := make([]*structs.Allocation, len(states))
	for i, s := range states {
		before[i] = c.known(s.ID)
	}
	if err := c.ControlPlane.UpdateAllocations(ctx, nodeID, states); err != nil {
		return err
	}
	for i, s := range states {
		c.outcomes.count(before[i], s)
		c.log.tell(before[i], s)
	}
	return nil
}
