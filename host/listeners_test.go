package host

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

func TestAProgramListensOnItsGroupsPorts(t *testing.T) {
	task := func() *wasmnodev1.TaskConfig {
		return &wasmnodev1.TaskConfig{Ports: []*wasmnodev1.Port{{Label: "http", HostIp: "127.0.0.1", HostPort: 20000, TaskPort: 80}, {Label: "bad"}}}
	}
	bridged := task()
	bridged.Ports = append(bridged.Ports, &wasmnodev1.Port{Label: "same", HostIp: "127.0.0.1", HostPort: 20001})
	bridged.Network = &wasmnodev1.TaskNetwork{Mode: "bridge", Ip: "172.26.64.2"}
	six := task()
	six.Network = &wasmnodev1.TaskNetwork{Mode: "cni/six", Ip: "fd00::2"}
	for _, tt := range []struct {
		task        *wasmnodev1.TaskConfig
		label, want string
	}{
		{task(), "http", "http 127.0.0.1:20000"},
		{bridged, "http", "http 0.0.0.0:80"},
		{bridged, "same", "same 0.0.0.0:20001"},
		{six, "http", "http [::]:80"},
	} {
		got, err := listeners(tt.task, []string{tt.label})
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Equal(t, tt.want, got[0].Name+" "+got[0].Address.String())
	}
	for _, tt := range []struct {
		task   *wasmnodev1.TaskConfig
		labels []string
		want   string
	}{
		{task(), []string{"smtp"}, `the group's network has no port "smtp": add network { port "smtp" {} }`},
		{task(), []string{"bad"}, `port "bad" has no address on the host`},
		{task(), make([]string, 1000), "more than"},
	} {
		_, err := listeners(tt.task, tt.labels)
		require.ErrorContains(t, err, tt.want)
	}
}
