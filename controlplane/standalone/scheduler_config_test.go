package standalone

import (
	"path/filepath"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// What the configuration says of the scheduler is in force until it is set, and not afterwards.
func TestASchedulersFirstConfigurationIsInForceUntilOneIsSet(t *testing.T) {
	opts := Options{Path: filepath.Join(t.TempDir(), "server.db"), Scheduler: &nomad.SchedulerConfiguration{SchedulerAlgorithm: nomad.SchedulerAlgorithmSpread}}
	algorithm := func(set bool) nomad.SchedulerAlgorithm {
		cp, err := Open(opts)
		require.NoError(t, err)
		defer func() { require.NoError(t, cp.Close()) }()
		first := cp.SchedulerConfiguration().SchedulerAlgorithm
		if set {
			updated, err := cp.SetSchedulerConfiguration(nomad.SchedulerConfiguration{SchedulerAlgorithm: nomad.SchedulerAlgorithmBinpack}, new(uint64(1)))
			require.NoError(t, err)
			require.True(t, updated, "it counts as the first one")
		}
		return first
	}
	require.Equal(t, nomad.SchedulerAlgorithmSpread, algorithm(false))
	require.Equal(t, nomad.SchedulerAlgorithmSpread, algorithm(true))
	require.Equal(t, nomad.SchedulerAlgorithmBinpack, algorithm(false))
}
