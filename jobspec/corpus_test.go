package jobspec

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// corpus holds real job files beside the JSON that Nomad's own parser gives for
// them. It is not part of the project.
const corpus = "../../shared/data/jobs"

func TestParseGivesWhatNomadGives(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(corpus, "*.json"))
	require.NoError(t, err)
	if len(files) == 0 {
		t.Skipf("the corpus of real job files is not here (%s)", corpus)
	}
	for _, want := range files {
		name := strings.TrimSuffix(want, ".json")
		t.Run(filepath.Base(name), func(t *testing.T) {
			job, err := parseFile(t, name)
			require.NoError(t, err)
			expected, err := os.ReadFile(want)
			require.NoError(t, err)
			got, err := json.Marshal(map[string]*nomad.Job{"Job": job})
			require.NoError(t, err)
			require.Equal(t, generic(t, expected), generic(t, got))
		})
	}
}

func TestParseRefusesWhatNomadRefuses(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(corpus, "*.invalid"))
	require.NoError(t, err)
	if len(files) == 0 {
		t.Skipf("the corpus of real job files is not here (%s)", corpus)
	}
	for _, reason := range files {
		name := strings.TrimSuffix(reason, ".invalid")
		t.Run(filepath.Base(name), func(t *testing.T) {
			_, err := parseFile(t, name)
			require.Error(t, err)
			t.Log(err)
		})
	}
}

func parseFile(t *testing.T, name string) (*nomad.Job, error) {
	t.Helper()
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	return Parse(Options{Path: name, Content: content, AllowFiles: true})
}

// generic decodes JSON with numbers as they are written.
func generic(t *testing.T, b []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	require.NoError(t, d.Decode(&v))
	return v
}
