package host_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// TestATasksSecretsAreInNothingThatIsToldOfACall has a driver say all that it knows in each way that it
// has: in lines of its output and its log, in an event, in its error, and when it panics.
func TestATasksSecretsAreInNothingThatIsToldOfACall(t *testing.T) {
	w := newWorld(t, host.Limits{})
	p := w.ready(t, guestbuild.Plugin(t, "host/testdata/faults/go"), host.Grants{})
	token := "eyJhbGciOiJFZERTQSJ9.eyJ" + strings.Repeat("claims", 60) + ".c2lnbmF0dXJl"
	env := func() map[string]string {
		return map[string]string{
			"A_GREETING": "good morning", "B_PASSWORD": "correct horse", "C_KEY": "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMG\n-----END PRIVATE KEY-----\n",
			"D_OTHER": token, "NOMAD_SECRETS_DIR": "/the/secrets", "NOMAD_TOKEN": token, "Z_TOKEN": strings.Repeat("battery staple ", 60),
		}
	}
	var told strings.Builder
	for _, how := range []string{"tell", "tell and panic"} {
		scope := taskScope(t)
		config, err := json.Marshal(map[string]string{"how": how, "pin": "open sesame"})
		require.NoError(t, err)
		scope.Config.AllocId, scope.Config.Env, scope.Config.DriverConfig = "the-allocation", env(), config
		scope.Config.DeviceEnv = map[string]string{"LICENSE_SECRET": "for one seat"}
		events := 0
		err = p.Invoke(t.Context(), host.Call{
			Op: abi.OpDriverStartTask, Task: scope.Config, Request: &wasmnodev1.DriverStartTaskRequest{Task: scope.Config}, Answer: &wasmnodev1.DriverStartTaskResponse{},
			Events: func(e *wasmnodev1.TaskEvent) error {
				events++
				fmt.Fprintln(&told, "event:", e.Message, e.Annotations)
				return nil
			},
		})
		require.Error(t, err)
		require.Equal(t, 1, events)
		fmt.Fprintf(&told, "error: %+v\n", err)
		if how == "tell and panic" {
			fmt.Fprintln(&told, "details:", faultOf(t, err).FaultDetails())
		} else {
			require.Equal(t, env(), scope.Config.Env, "the task's own stay as they are")
		}
	}
	fmt.Fprintln(&told, "the agent's log:", w.logs.lines(t))
	for _, l := range readAll(t, w.LogLines("faults_go", 100)) {
		fmt.Fprintln(&told, "plugin logs:", l)
	}
	all := told.String()
	for _, secret := range []string{"correct", "MIGHAg", "eyJhbG", "claims", "c2lnbm", "battery", "sesame"} {
		require.NotContains(t, all, secret)
	}
	for _, plain := range []string{"A_GREETING:good morning", "NOMAD_SECRETS_DIR:/the/secrets", "B_PASSWORD:masked-masked", `"pin":"masked-mask"`} {
		require.Contains(t, all, plain)
	}
	require.Contains(t, all, "D_OTHER:masked-masked-", "what has a token's shape, whatever its name")
	require.Contains(t, all, "error: plugin faults_go trapped")
}

// TestTheSecretsThatAreMaskedAreThoseOfTheCallsTask has one plugin serve tasks, one after the other.
func TestTheSecretsThatAreMaskedAreThoseOfTheCallsTask(t *testing.T) {
	p := newWorld(t, host.Limits{}).ready(t, guestbuild.Plugin(t, "host/testdata/faults/go"), host.Grants{})
	say := func(env map[string]string) string {
		scope := taskScope(t)
		scope.Config.Env, scope.Config.DriverConfig = env, []byte(`{"how": "tell"}`)
		err := p.Invoke(t.Context(), host.Call{
			Op: abi.OpDriverStartTask, Task: scope.Config, Request: &wasmnodev1.DriverStartTaskRequest{Task: scope.Config},
			Answer: &wasmnodev1.DriverStartTaskResponse{}, Events: func(*wasmnodev1.TaskEvent) error { return nil },
		})
		require.Error(t, err)
		return err.Error()
	}
	require.NotContains(t, say(map[string]string{"PASSWORD": "good morning"}), "good morning")
	require.Contains(t, say(map[string]string{"GREETING": "good morning"}), "good morning")

	id := taskScope(t).Config.Id
	p.KeepSecrets(id, []string{"GREETING", "ABSENT"})
	require.NotContains(t, say(map[string]string{"GREETING": "good morning"}), "good morning")
	require.Contains(t, say(map[string]string{"OTHER": "good morning"}), "good morning")
	p.KeepSecrets(id+"1", []string{"OTHER"})
	require.Contains(t, say(map[string]string{"OTHER": "good morning"}), "good morning", "of another task")
	p.KeepSecrets(id, nil)
	require.Contains(t, say(map[string]string{"GREETING": "good morning"}), "good morning")

	many := map[string]string{"GREETING": "good morning"}
	for i := range 1024 {
		many[fmt.Sprintf("TOKEN_%d", i)] = fmt.Sprintf("token %04d", i)
	}
	require.Contains(t, say(many), "good morning")
	many["TOKEN"] = "one too many"
	require.Contains(t, say(many), "not shown: its task has more secrets than are masked")
	require.NotContains(t, say(many), "good morning")
}
