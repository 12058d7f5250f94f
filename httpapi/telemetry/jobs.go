package telemetry

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// A JobDesc describes a metric of Nomad's that jobs have. The children of periodic and
// parameterized jobs have two labels besides, so that the collector has to be unchecked: what it
// describes is nothing.
type JobDesc map[string]*prometheus.Desc // by the label that has a child's own ID; "": none

// DescribeJob describes a metric as [Describe] does. It is for the initialization of packages.
func DescribeJob(name, help string, labels ...string) JobDesc {
	d := JobDesc{"": Describe(name, help, labels...)}
	for _, id := range []string{dispatchID, periodicID} {
		d[id] = Describe(name, help, slices.Concat(labels, []string{"parent_id", id})...)
	}
	return d
}

// Metric returns a value of the metric for a job, with the values of its labels.
func (d JobDesc) Metric(kind prometheus.ValueType, value float64, of Job, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d[of.child], kind, value, slices.Concat(labels, of.labels)...)
}

// The labels of the ID that a child has beside its parent's.
const (
	dispatchID = "dispatch_id"
	periodicID = "periodic_id"
)

// Job is what metrics tell of a job besides its ID.
type Job struct {
	child  string
	labels []string
}

// JobOf looks at the ID of a job, which has to be valid UTF-8.
func JobOf(id string) Job {
	if parent, own, is := strings.Cut(id, "/dispatch-"); is {
		return Job{dispatchID, []string{parent, own}}
	}
	if parent, own, is := strings.Cut(id, "/periodic-"); is {
		return Job{periodicID, []string{parent, own}}
	}
	return Job{}
}
