package template_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFunctionsAreConsulTemplates compares with what consul-template 0.42.1 itself rendered, which
// is what Nomad 2.0.5 has. Of what fails, only that it does.
func TestFunctionsAreConsulTemplates(t *testing.T) {
	in := input(t, map[string]string{"NAME": "web", "EMPTY": ""})
	data, err := os.ReadFile("testdata/consul-template.json")
	require.NoError(t, err)
	var rows []struct {
		Template, Output string
		Fails            bool
	}
	require.NoError(t, json.Unmarshal(data, &rows))
	for _, row := range rows {
		out, err := renderAny(t, in, row.Template)
		if row.Fails {
			if err == nil {
				t.Errorf("%s\nmade:  %q\nfails there", row.Template, out)
			}
			continue
		}
		if err != nil || out != row.Output {
			t.Errorf("%s\nmade:  %q %v\nthere: %q", row.Template, out, err, row.Output)
		}
	}
}
