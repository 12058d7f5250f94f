package template_test

import (
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/template"
)

func TestANodeBoundsTheWaitsOfTemplates(t *testing.T) {
	s := func(n int) *time.Duration { return ptr(time.Duration(n) * time.Second) }
	bounds := template.Wait{Min: 5 * time.Second, Max: 10 * time.Second}
	for name, c := range map[string]struct {
		limits   template.Limits
		block    *nomad.WaitConfig
		min, max time.Duration // in seconds
	}{
		"nothing is said":          {template.Limits{}, nil, 0, 0},
		"the node's":               {template.Limits{Wait: template.Wait{Min: 3 * time.Second, Max: 7 * time.Second}}, nil, 3, 7},
		"the node's, without max":  {template.Limits{Wait: template.Wait{Min: 3 * time.Second}}, nil, 3, 12},
		"its own":                  {template.Limits{Wait: template.Wait{Min: 3 * time.Second}}, &nomad.WaitConfig{Min: s(1), Max: s(2)}, 1, 2},
		"within":                   {template.Limits{WaitBounds: bounds}, &nomad.WaitConfig{Min: s(5), Max: s(10)}, 5, 10},
		"min is too small":         {template.Limits{WaitBounds: bounds}, &nomad.WaitConfig{Min: s(4), Max: s(7)}, 5, 7},
		"max is too great":         {template.Limits{WaitBounds: bounds}, &nomad.WaitConfig{Min: s(6), Max: s(11)}, 6, 10},
		"both are too small":       {template.Limits{WaitBounds: bounds}, &nomad.WaitConfig{Min: s(1), Max: s(2)}, 5, 5},
		"both are too great":       {template.Limits{WaitBounds: bounds}, &nomad.WaitConfig{Min: s(20), Max: s(40)}, 10, 10},
		"the node's has no bounds": {template.Limits{Wait: template.Wait{Min: time.Second}, WaitBounds: bounds}, nil, 1, 4},
	} {
		block := inline("x")
		block.Wait = c.block
		tmpl, err := template.NewWithin(block, c.limits)
		require.NoError(t, err, name)
		require.Equal(t, c.min*time.Second, tmpl.Wait, name)
		require.Equal(t, c.max*time.Second, tmpl.MaxWait, name)
	}
}

func TestANodeDeniesFunctionsOfTemplates(t *testing.T) {
	limits := template.Limits{Denied: []string{"file", "printf"}}
	for data, want := range map[string]string{
		`{{ if true }}{{ file "a" | toUpper }}{{ end }}`: "error calling file: function is disabled: the node's configuration has it in its function_denylist",
		`{{ printf "%d" 1 }}`:                            "error calling printf: function is disabled",
		`{{ plugin "a" }}`:                               "error calling plugin: function is disabled",
	} {
		_, err := template.NewWithin(inline(data), limits)
		require.ErrorContains(t, err, want)
	}
	_, err := template.NewWithin(inline(`{{ env "file" }}`), limits)
	require.NoError(t, err)
}

func TestAScriptsTimeoutIsBounded(t *testing.T) {
	script := func(timeout time.Duration) *nomad.Template {
		b := inline("x")
		b.ChangeMode, b.ChangeScript = ptr("script"), &nomad.ChangeScript{Command: ptr("x"), Timeout: ptr(timeout)}
		return b
	}
	_, err := template.New(script(time.Hour))
	require.NoError(t, err)
	_, err = template.New(script(time.Hour + 1))
	require.EqualError(t, err, "change_script: timeout: it can be 1h0m0s at most: it is 1h0m0.000000001s")
}
