package httpapi_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// elsewhere are metrics of what there is not in a test: faults, refusals, and a supervisor that is
// a process of its own. That they are called so is looked at where they are made.
var elsewhere = []string{"wasmnode_plugin_faults_total", "wasmnode_http_refused_total", "wasmnode_supervisor_resident_memory_bytes"}

var (
	metricName = regexp.MustCompile(`\b(?:nomad|wasmnode|process)_[a-z0-9_]+`)
	// selected are the labels of one metric that an expression is about.
	selected = regexp.MustCompile(`\b((?:nomad|wasmnode|process)_[a-z0-9_]+)\{([^}]*)\}`)
	labels   = regexp.MustCompile(`([a-z_]+)(?:=|!)`)
	part     = regexp.MustCompile(`_(?:bucket|sum|count)$`)
)

// testMonitoring holds the dashboard and the alerts of docs/monitoring against the metrics of a node.
func testMonitoring(t *testing.T, all map[string]*dto.MetricFamily) {
	t.Helper()
	rules, dashboard := ruleExpressions(t), dashboardExpressions(t)
	require.Greater(t, len(rules), 15)
	require.Greater(t, len(dashboard), 30)
	for _, expr := range slices.Concat(rules, dashboard) {
		for _, name := range metricName.FindAllString(expr, -1) {
			require.True(t, familyOf(all, name) != nil || slices.Contains(elsewhere, name), "%s is asked for and not there: %s", name, expr)
		}
		for _, m := range selected.FindAllStringSubmatch(expr, -1) {
			family := familyOf(all, m[1])
			for _, l := range labels.FindAllStringSubmatch(m[2], -1) {
				require.True(t, family == nil || l[1] == "instance" || hasLabel(family, l[1]), "%s has no label %s: %s", m[1], l[1], expr)
			}
		}
	}
}

func familyOf(all map[string]*dto.MetricFamily, name string) *dto.MetricFamily {
	if f := all[name]; f != nil {
		return f
	}
	if f := all[part.ReplaceAllString(name, "")]; f.GetType() == dto.MetricType_HISTOGRAM {
		return f
	}
	return nil
}

func hasLabel(f *dto.MetricFamily, name string) bool {
	return slices.ContainsFunc(f.Metric[0].Label, func(l *dto.LabelPair) bool { return l.GetName() == name })
}

// ruleExpressions are what the alerts ask for.
func ruleExpressions(t *testing.T) (list []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/monitoring/alerts.yml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			list = append(list, r.Expr)
		}
	}
	return list
}

// dashboardExpressions are what the dashboard asks for.
func dashboardExpressions(t *testing.T) (list []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/monitoring/dashboard.json")
	require.NoError(t, err)
	var file struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Definition string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &file))
	for _, p := range file.Panels {
		for _, target := range p.Targets {
			list = append(list, target.Expr)
		}
	}
	for _, v := range file.Templating.List {
		list = append(list, v.Definition)
	}
	return list
}
