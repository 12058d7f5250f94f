package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecretsOfTheAgentsEnvironmentAreNoTasks(t *testing.T) {
	require.Equal(t, map[string]string{"HOME": "/root", "LANG": "", "NOMAD_PARENT_CGROUP": "wasmnode", "X": "a=b", "VAULT_ADDR": "https://v"}, taskEnvironment([]string{
		"HOME=/root", "LANG=", "X=a=b", "VAULT_ADDR=https://v", "=odd", "MINE=secret",
		"AWS_ACCESS_KEY_ID=s", "AWS_SECRET_ACCESS_KEY=s", "AWS_SESSION_TOKEN=s", "CONSUL_HTTP_TOKEN=s", "CONSUL_HTTP_TOKEN_FILE=s",
		"CONSUL_TOKEN=s", "GOOGLE_APPLICATION_CREDENTIALS=s", "NOMAD_LICENSE=s", "NOMAD_TOKEN=s", "VAULT_TOKEN=s",
		"NOTIFY_SOCKET=/run/s", "LISTEN_FDS=1", "WASMNODE_STRICT=1",
	}, []string{"MINE"}, "wasmnode"))
}
