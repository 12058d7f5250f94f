package telemetry

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

var (
	described = Describe("nomad.client.allocs.cpu.total_percent", "Of Nomad's.", "job")
	ofJobs    = DescribeJob("nomad.nomad.job_summary.running", "Of jobs.", "job")
	other     = prometheus.NewDesc("wasmnode_plugin_calls_total", "Of ours.", nil, nil)
)

type two struct{}

func (two) Describe(out chan<- *prometheus.Desc) { out <- described; out <- other }

func (two) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(described, prometheus.GaugeValue, 1, "a")
	out <- prometheus.MustNewConstMetric(described, prometheus.GaugeValue, 2, "b")
	out <- prometheus.MustNewConstMetric(other, prometheus.CounterValue, 3)
}

// shown are the names and labels of what is shown of two metrics.
func shown(t *testing.T, o Options) (list []string) {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(two{})
	families, err := Show(r, o).Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.Metric {
			labels := []string{}
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			list = append(list, Name(f.GetName())+" "+strings.Join(labels, ","))
		}
	}
	return list
}

func TestRulesSayWhatIsShown(t *testing.T) {
	const a, b, c = "nomad.client.allocs.cpu.total_percent job=a", "nomad.client.allocs.cpu.total_percent job=b", "wasmnode_plugin_calls_total "
	for name, tt := range map[string]struct {
		o    Options
		want []string
	}{
		"without rules":               {Options{}, []string{a, b, c}},
		"one is hidden":               {Options{Filter: []string{"-nomad.client"}}, []string{c}},
		"the rest is hidden":          {Options{Filter: []string{"+nomad.client"}, HideRest: true}, []string{a, b}},
		"all is hidden":               {Options{HideRest: true}, nil},
		"the longest decides":         {Options{Filter: []string{"+nomad.client.allocs", "-nomad", "-wasmnode"}}, []string{a, b}},
		"and in another order":        {Options{Filter: []string{"-nomad", "+nomad.client.allocs"}}, []string{a, b, c}},
		"of the same the one hides":   {Options{Filter: []string{"+nomad.client", "-nomad.client"}}, []string{c}},
		"and that in another order":   {Options{Filter: []string{"-nomad.client", "+nomad.client"}}, []string{c}},
		"one that is about all":       {Options{Filter: []string{"-", "+wasmnode_plugin"}}, []string{c}},
		"the text's names are no one": {Options{Filter: []string{"-nomad_client"}}, []string{a, b, c}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, shown(t, tt.o)) })
	}
}

func TestOnlyNomadsMetricsHaveTheHost(t *testing.T) {
	require.Equal(t, []string{
		"nomad.client.allocs.cpu.total_percent host=h,job=a", "nomad.client.allocs.cpu.total_percent host=h,job=b", "wasmnode_plugin_calls_total ",
	}, shown(t, Options{Host: "h"}))
}

func TestChildrenHaveTheirParent(t *testing.T) {
	for id, want := range map[string]string{
		"web":                          `label:{name:"job" value:"web"} gauge:{value:1}`,
		"cron/periodic-17":             `label:{name:"job" value:"cron/periodic-17"} label:{name:"parent_id" value:"cron"} label:{name:"periodic_id" value:"17"} gauge:{value:1}`,
		"param/dispatch-17-ab":         `label:{name:"dispatch_id" value:"17-ab"} label:{name:"job" value:"param/dispatch-17-ab"} label:{name:"parent_id" value:"param"} gauge:{value:1}`,
		"a/periodic-1/dispatch-2":      `label:{name:"dispatch_id" value:"2"} label:{name:"job" value:"a/periodic-1/dispatch-2"} label:{name:"parent_id" value:"a/periodic-1"} gauge:{value:1}`,
		"periodic-17 is a name, too":   `label:{name:"job" value:"periodic-17 is a name, too"} gauge:{value:1}`,
		"dispatched/dispatched-of-old": `label:{name:"job" value:"dispatched/dispatched-of-old"} gauge:{value:1}`,
	} {
		var m dto.Metric
		require.NoError(t, ofJobs.Metric(prometheus.GaugeValue, 1, JobOf(id), id).Write(&m))
		require.Equal(t, want, strings.Join(strings.Fields(m.String()), " "), id)
	}
}

func TestWhatCouldNotBeGatheredIsTold(t *testing.T) {
	broken := errors.New("broken")
	_, err := Show(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return nil, broken }), Options{}).Gather()
	require.ErrorIs(t, err, broken)
}
