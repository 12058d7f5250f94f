package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/httpapi/access"
)

// The package of the configuration does not know the API's.
func TestTheDefaultLimitsOfTheConfigurationAreTheAPIs(t *testing.T) {
	c, want := config.Default().Access.Limits, access.DefaultLimits()
	require.Equal(t, config.Limits{Reads: want.Reads, Bodies: want.Bodies, Streams: want.Streams, Connections: want.Connections}, c)
}

func TestTheDefaultsOfTheConfigurationAreTheControlPlanes(t *testing.T) {
	require.Equal(t, standalone.DefaultLimits(), keep(config.Default().Server))
}
