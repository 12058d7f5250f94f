// Package telemetry is what is shown of metrics, and by which names: a metric of Nomad's is
// called in JSON as Nomad calls it, and what the agent's configuration says of metrics has its
// effect. It must know nothing of what is measured. Start reading at [Show].
package telemetry

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// names are Nomad's names of metrics by those that they have in Prometheus' text, where dots and
// underscores are the same.
var names = map[string]string{}

// Describe describes a metric of Nomad's by the name that Nomad has for it, with dots. It is for
// the initialization of packages: it must not be called beside another function of this package.
func Describe(name, help string, labels ...string) *prometheus.Desc {
	text := strings.ReplaceAll(name, ".", "_")
	names[text] = name
	return prometheus.NewDesc(text, help, labels, nil)
}

// Name is what a metric is called in JSON, by its name in Prometheus' text.
func Name(text string) string { return cmp.Or(names[text], text) }

// Label is a text as the value of a label can be.
func Label(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Options are what is shown of metrics. The zero value shows all of them.
type Options struct {
	// Host is the label of that name that Nomad's metrics have; empty: they have none.
	Host string
	// Filter are rules: "+PREFIX" shows and "-PREFIX" hides what has a name in JSON that begins
	// so. The longest prefix decides, and of two that are the same the one that hides.
	Filter []string
	// HideRest hides what no rule is about.
	HideRest bool
	// HideDispatched leaves out the summaries of jobs that were dispatched.
	HideDispatched bool
}

// Show returns what is shown of metrics. It is as safe for concurrent use as they are.
func Show(metrics prometheus.Gatherer, o Options) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := metrics.Gather()
		families = slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return !o.shows(Name(f.GetName())) })
		for _, f := range families {
			if _, of := names[f.GetName()]; of && o.Host != "" {
				label(f, "host", o.Host)
			}
		}
		return families, err
	})
}

func (o Options) shows(name string) bool {
	shown, longest := !o.HideRest, -1
	for _, rule := range o.Filter {
		sign, prefix := rule[:1], rule[1:]
		if !strings.HasPrefix(name, prefix) || len(prefix) < longest || len(prefix) == longest && !shown {
			continue
		}
		shown, longest = sign == "+", len(prefix)
	}
	return shown
}

// label adds a label to all metrics of a family. Their own lists of labels may be shared by
// those who gather at the same time.
func label(f *dto.MetricFamily, name, value string) {
	for _, m := range f.Metric {
		at, _ := slices.BinarySearchFunc(m.Label, name, func(l *dto.LabelPair, name string) int { return strings.Compare(l.GetName(), name) })
		m.Label = slices.Insert(slices.Clone(m.Label), at, &dto.LabelPair{Name: &name, Value: &value})
	}
}
