package agent

import (
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/runners/taskenv"
)

// secrets are the variables of the agent's environment that no task gets: what Nomad denies
// by default, the token of its own tools, and what is between the agent and who started it.
var secrets = []string{
	"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "CONSUL_HTTP_TOKEN", "CONSUL_HTTP_TOKEN_FILE",
	"CONSUL_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS", "LISTEN_FDNAMES", "LISTEN_FDS", "LISTEN_PID", "NOMAD_LICENSE",
	"NOMAD_TOKEN", "NOTIFY_SOCKET", "VAULT_TOKEN", "WATCHDOG_PID", "WATCHDOG_USEC",
}

// ours begin the variables that are about the agent itself.
const ours = "WASMNODE_"

// taskEnvironment is what tasks get of the agent's environment, and the cgroup that they are
// in if there is one.
func taskEnvironment(environ, denied []string, cgroup string) map[string]string {
	env := map[string]string{}
	if cgroup != "" {
		env[taskenv.ParentCgroup] = cgroup
	}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if name != "" && !strings.HasPrefix(name, ours) && !slices.Contains(secrets, name) && !slices.Contains(denied, name) {
			env[name] = value
		}
	}
	return env
}
