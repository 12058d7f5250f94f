package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTelemetrySaysWhatIsShown(t *testing.T) {
	c := Default()
	require.NoError(t, c.Load(write(t, t.TempDir(), "node.hcl", `
telemetry {
  publish_allocation_metrics             = false
  publish_node_metrics                   = false
  disable_hostname                       = true
  use_node_name                          = true
  prefix_filter                          = ["+nomad.client", "-nomad"]
  filter_default                         = false
  disable_dispatched_job_summary_metrics = true
}`)))
	require.NoError(t, c.Validate())
	require.Empty(t, c.Warnings)
	require.Equal(t, Telemetry{
		DisableHostname: true, UseNodeName: true, PrefixFilter: []string{"+nomad.client", "-nomad"}, HideDispatched: true,
	}, c.Telemetry)
}

func TestRulesOfTelemetryAreLookedAt(t *testing.T) {
	rules := func(n int) string { return strings.TrimSuffix(strings.Repeat(`"-a",`, n), ",") }
	for name, tt := range map[string]struct{ rules, want string }{
		"no sign":       {`"nomad"`, `telemetry.prefix_filter: "nomad" begins neither with + nor with -`},
		"nothing":       {`""`, `telemetry.prefix_filter: "" begins neither with + nor with -`},
		"too many":      {rules(maxPrefixes + 1), "telemetry.prefix_filter: 101 rules are more than 100"},
		"as many as":    {rules(maxPrefixes), ""},
		"a sign is all": {`"-"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := Default()
			require.NoError(t, c.Load(write(t, t.TempDir(), "node.hcl", "telemetry {\n  prefix_filter = ["+tt.rules+"]\n}\n")))
			if tt.want == "" {
				require.NoError(t, c.Validate())
			} else {
				require.ErrorContains(t, c.Validate(), tt.want)
			}
		})
	}
}
