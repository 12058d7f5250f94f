package host

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

func TestAProgramListensOnItsGroupsPortsOfTheHost(t *testing.T) {
	task := func() *wasmnodev1.TaskConfig {
		return &wasmnodev1.TaskConfig{Ports: []*wasmnodev1.Port{{Label: "http", HostIp: "127.0.0.1", HostPort: 20000, TaskPort: 80}, {Label: "bad"}}}
	}
	got, err := listeners(task(), []string{"http"})
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, "http 127.0.0.1:20000", got[0].Name+" "+got[0].Address.String())

	bridged := task()
	bridged.Network = &wasmnodev1.TaskNetwork{Mode: "bridge"}
	got, err = listeners(bridged, nil)
	require.NoError(t, err)
	require.Empty(t, got)
	for _, tt := range []struct {
		task   *wasmnodev1.TaskConfig
		labels []string
		want   string
	}{
		{task(), []string{"smtp"}, `the group's network has no port "smtp": add network { port "smtp" {} }`},
		{task(), []string{"bad"}, `port "bad" has no address on the host`},
		{task(), make([]string, 1000), "more than"},
		{bridged, []string{"http"}, `the group has a network of its own, of mode "bridge": leave the mode out`},
	} {
		_, err := listeners(tt.task, tt.labels)
		require.ErrorContains(t, err, tt.want)
	}
}
