package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/wasmnode/wasmnode/internal/enginetest"
)

// Prometheus' own tool takes the alerts, and what the dashboard asks for; and the alerts are
// raised when they should, and not otherwise.
func TestPrometheusTakesTheAlertsAndTheDashboard(t *testing.T) {
	enginetest.Program(t, "promtool", "prometheus")
	promtool := func(args ...string) {
		t.Helper()
		out, err := exec.Command("promtool", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	promtool("check", "rules", "--lint=all", "--lint-fatal", "monitoring/alerts.yml")
	promtool("test", "rules", "monitoring/alerts_test.yml")
	text, err := os.ReadFile("monitoring/dashboard.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	type rule struct{ Record, Expr string }
	var rules []rule
	variables := strings.NewReplacer("$instance", ".*", "$__rate_interval", "5m")
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			rules = append(rules, rule{"dashboard", variables.Replace(target.Expr)})
		}
	}
	require.Greater(t, len(rules), 30)
	file, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "dashboard.yml")
	require.NoError(t, os.WriteFile(path, file, 0o600))
	promtool("check", "rules", "--lint=none", path)
}
