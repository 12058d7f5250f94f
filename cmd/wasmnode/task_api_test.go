package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// askingJob asks the API for variables with its own token, by its own socket.
const askingJob = `
job "asking" {
  group "g" {
    task "t" {
      driver = "raw_exec"
      identity {
        env  = true
        file = true
      }
      env {
        NOMAD_ADDR = "unix://${NOMAD_SECRETS_DIR}/api.sock"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "BINARY var get -item word nomad/jobs/asking; BINARY var get nomad/jobs/other 2>&1; BINARY job status 2>&1; echo; exec sleep 1000"]
      }
    }
  }
}
`

// TestATaskAsksTheAPIBySocket has the agent killed while the task runs: its socket is there again.
func TestATaskAsksTheAPIBySocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // a socket's path is short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // the task may be ending in it
	s := newSiteIn(t, dir, "raw_exec")
	s.grant(t, "plugin \"raw_exec\" { grant { process { commands = [\"*\"] } } }\nacl { enabled = true }")
	n := s.start(t)
	t.Setenv("NOMAD_TOKEN", regexp.MustCompile(`Secret ID += (\S+)`).FindStringSubmatch(n.out(t, "acl", "bootstrap"))[1])
	n.out(t, "var", "put", "-out", "none", "nomad/jobs/asking", "word=ahoy")
	n.out(t, "var", "put", "-out", "none", "nomad/jobs/other", "word=theirs")
	file := write(t, filepath.Join(t.TempDir(), "asking.nomad.hcl"), strings.ReplaceAll(askingJob, "BINARY", binary))
	require.Zero(t, n.run(t, "job", "run", "-detach", file).code)
	alloc := n.awaitAlloc(t, "asking", func(a *nomad.AllocationListStub) bool { return a.ClientStatus == nomad.AllocClientStatusRunning }).ID
	answered := func() (log string) {
		t.Helper()
		require.Eventually(t, func() bool { log = n.out(t, "alloc", "logs", alloc); return strings.HasSuffix(log, "\n\n") }, testTimeout, tick)
		return log
	}
	log := answered()
	require.True(t, strings.HasPrefix(log, "ahoy"), log)
	require.Equal(t, 2, strings.Count(log, "Permission denied"), log)
	require.NotContains(t, log, "theirs")

	require.Equal(t, -1, n.signal(t, syscall.SIGKILL))
	n = s.start(t)
	secrets := filepath.Join(s.data, "alloc", alloc, "t", "secrets")
	token, err := os.ReadFile(filepath.Join(secrets, "nomad_token"))
	require.NoError(t, err)
	asked := func(token string, args ...string) result {
		t.Helper()
		cmd := exec.Command(binary, args...)
		cmd.Env = append(os.Environ(), "NOMAD_ADDR=unix://"+filepath.Join(secrets, "api.sock"), "NOMAD_TOKEN="+token)
		return execute(t, cmd)
	}
	require.Eventually(t, func() bool {
		return asked(string(token), "var", "get", "-item", "word", "nomad/jobs/asking").stdout == "ahoy"
	}, testTimeout, tick)
	wants(t, asked("", "var", "get", "nomad/jobs/asking"), 1, "(?s).*Unauthorized.*")
	require.NotContains(t, n.log.String(), string(token))
	require.NotContains(t, n.out(t, "alloc", "status", "-json", alloc), string(token))
	for _, path := range []string{"t/secrets/nomad_token", "t/secrets"} {
		require.NotZero(t, n.run(t, "alloc", "fs", alloc, path).code, path)
	}

	n.out(t, "job", "stop", "-detach", "asking")
	require.Eventually(t, func() bool {
		_, err := os.Lstat(filepath.Join(secrets, "api.sock"))
		return os.IsNotExist(err)
	}, testTimeout, tick)
	cmd := exec.Command(binary, "var", "get", "nomad/jobs/asking")
	cmd.Env = append(os.Environ(), "NOMAD_ADDR=http://"+n.address, "NOMAD_TOKEN="+string(token))
	require.Eventually(t, func() bool {
		again := *cmd
		return strings.Contains(execute(t, &again).stderr, "identity token: allocation is terminal")
	}, testTimeout, tick)
}
