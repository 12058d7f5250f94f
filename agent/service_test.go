package agent_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/internal/sdnotify"
)

// TestAServiceManagerKnowsHowTheAgentIs plays the service manager, from the start to the end.
func TestAServiceManagerKnowsHowTheAgentIs(t *testing.T) {
	dir := t.TempDir()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, socket.Close()) })
	for name, value := range map[string]string{"NOTIFY_SOCKET": filepath.Join(dir, "notify"), "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": ""} {
		t.Setenv(name, value)
	}
	service, err := sdnotify.Open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, service.Close()) })
	config := filepath.Join(dir, "node.hcl")
	require.NoError(t, os.WriteFile(config, nil, 0o600))
	reload, answers, ended := make(chan os.Signal), make(chan string, 1), make(chan error, 1)
	o := agent.Options{
		DataDir: dir, PluginDir: t.TempDir(), HTTPAddr: "127.0.0.1:0", LogOutput: t.Output(), ConfigPaths: []string{config},
		Service: service, Reload: reload, Answers: func(address string) { answers <- address },
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- agent.Run(ctx, o) }()

	await(t, socket, "READY=1")
	response, err := http.Get("http://" + <-answers + "/v1/agent/health")
	require.NoError(t, err, "it is ready when the API answers")
	require.NoError(t, response.Body.Close())
	await(t, socket, "STATUS=the API answers at 127.0.0.1:")
	await(t, socket, "WATCHDOG=1")

	require.NoError(t, os.WriteFile(config, []byte("colour = 1"), 0o600))
	reload <- syscall.SIGHUP
	await(t, socket, "RELOADING=1\nMONOTONIC_USEC=")
	await(t, socket, "STATUS=the configuration was not reloaded, the one before stays in force: ")
	await(t, socket, "READY=1")
	await(t, socket, "WATCHDOG=1")

	stop()
	await(t, socket, "STOPPING=1")
	require.NoError(t, <-ended)
}

// await reads until a message begins like that.
func await(t *testing.T, socket *net.UnixConn, want string) {
	t.Helper()
	buffer := make([]byte, 4096)
	for {
		require.NoError(t, socket.SetReadDeadline(time.Now().Add(time.Minute)))
		n, err := socket.Read(buffer)
		require.NoError(t, err, "waiting for %s", want)
		if strings.HasPrefix(string(buffer[:n]), want) {
			return
		}
	}
}
