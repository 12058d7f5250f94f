package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/enginetest"
	"github.com/wasmnode/wasmnode/managers/catalog"
)

// dockerSite is a node with an engine.
func dockerSite(t *testing.T) (*site, *enginetest.Engine) {
	t.Helper()
	e := enginetest.Docker(t)
	return siteWith(t, e), e
}

// siteWith is a node with a given engine.
func siteWith(t *testing.T, e *enginetest.Engine) *site {
	t.Helper()
	s := newSite(t, "docker")
	s.grantDocker(t, e)
	return s
}

// grantDocker lets the docker driver of a node have an engine.
func (s *site) grantDocker(t *testing.T, e *enginetest.Engine) {
	t.Helper()
	s.grant(t, fmt.Sprintf(`plugin "docker" {
  config {
    endpoint    = "unix://%s"
    infra_image = "pause:1"
  }
  grant {
    kv { enabled = true }
    net { namespaces = ["%s"] }
    http { endpoint "unix:%s" {
      methods = ["GET", "POST", "DELETE"]
      paths = ["/version", "/info", "/containers/", "/images/", "/exec/"]
    } }
  }
}`, e.Socket, e.Namespaces(), e.Socket))
}

func TestACommandRunsInAContainer(t *testing.T) {
	enginetest.Each(t, commandsInAContainer)
}

func commandsInAContainer(t *testing.T, e *enginetest.Engine) {
	n := siteWith(t, e).start(t)
	n.awaitDriver(t, "docker", true)
	text := fmt.Sprintf(containerJob, "waiting", "docker", `"wait"`, fmt.Sprintf("image = %q\n        network_mode = \"host\"", enginetest.Image))
	n.out(t, "job", "run", "-detach", write(t, filepath.Join(t.TempDir(), "job.nomad.hcl"), text))
	alloc := n.await(t, "waiting", "running")
	require.Equal(t, result{3, "out", "err"}, n.run(t, "alloc", "exec", "-t=false", "-i=false", alloc.ID, "/program", "print", "out", "err", "3"))
	r := n.run(t, "alloc", "exec", "-t=false", "-i=false", alloc.ID, "/nothing")
	require.NotZero(t, r.code)
	require.Contains(t, r.stdout+r.stderr, "/nothing")

	input := strings.Repeat("0123456789abcdef", 1<<14)
	cmd := n.command("alloc", "exec", "-i", alloc.ID, "/program", "echo")
	cmd.Stdin = strings.NewReader(input)
	r = execute(t, cmd)
	require.Zero(t, r.code, r.stderr)
	require.True(t, r.stdout == input, "%d bytes come back", len(r.stdout))

	for keys, code := range map[string]int{"exit 5\r": 5, "\x04": 9} { // the latter is ^D
		tt := newTestTerminal(t)
		cmd := n.command("alloc", "exec", "-i", "-t", alloc.ID, "/program", "terminal")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = tt.theirs, tt.theirs, tt.theirs
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		require.NoError(t, cmd.Start())
		tt.await(t, `size 33x101\r\n`)
		columns := uint16(120)
		require.Eventually(t, func() bool { // of two sizes that come at once, Podman loses one now and then
			tt.resize(t, 50, columns)
			columns++
			return strings.Contains(tt.shown.String(), "size 50x1")
		}, testTimeout, 100*time.Millisecond)
		tt.enter(t, "hello\r")
		tt.await(t, `read hello`)
		tt.enter(t, keys)
		require.Error(t, cmd.Wait())
		require.Equal(t, code, cmd.ProcessState.ExitCode())
	}

	// A client that goes ends a command that reads.
	tt := newTestTerminal(t)
	cmd = n.command("alloc", "exec", "-i", "-t", alloc.ID, "/program", "terminal")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tt.theirs, tt.theirs, tt.theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	tt.await(t, `size 33x101\r\n`)
	require.Equal(t, 2, e.Processes(t, e.Containers(t)[0].ID))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return e.Processes(t, e.Containers(t)[0].ID) == 1 }, testTimeout, tick)
}

// An engine that hangs is told as what it is, and not as a fault of the plugin that asks it.
func TestADriverWhoseEngineHangsIsUnhealthyUntilThatAnswers(t *testing.T) {
	s, e := dockerSite(t)
	n := s.start(t)
	n.awaitPlugin(t, "docker", catalog.StateHealthy)
	asked := func(state catalog.State) catalog.PluginStatus {
		t.Helper()
		now := time.Now() // the file that was touched has its plugin asked at once
		require.NoError(t, os.Chtimes(filepath.Join(s.plugins, "docker.wasm"), now, now))
		return n.awaitPlugin(t, "docker", state)
	}
	goOn := e.Hang(t)
	hung := asked(catalog.StateUnhealthy)
	require.Regexp(t, `^Failed to connect to docker daemon: the engine does not answer GET /version within [0-9.]+s$`, hung.Reason)
	goOn()
	require.Empty(t, asked(catalog.StateHealthy).Stats.Faults)
}

// A driver that was not granted its credential helper works for all that needs none.
func TestADriverAsksItsEngineOverTLSAndAHelperForCredentials(t *testing.T) {
	e, address, certificates, ca := enginetest.DockerOverTLS(t)
	name := enginetest.Registry(t) + "/some/image"
	e.Publish(t, enginetest.Image, name)
	helper := filepath.Join(t.TempDir(), "docker-credential-test")
	require.NoError(t, os.WriteFile(helper, fmt.Appendf(nil, "#!/bin/sh\n[ \"$1\" = get ] && read server; echo '{\"ServerURL\": \"'$server'\", \"Username\": %q, \"Secret\": %q}'\n",
		enginetest.User, enginetest.Password), 0o755))
	s := newSite(t, "docker")
	s.grant(t, fmt.Sprintf(`plugin "docker" {
  config {
    endpoint = "tcp://%[1]s"
    tls {
      ca   = "%[2]s"
      cert = "%[3]s/cert.pem"
      key  = "%[3]s/key.pem"
    }
    auth { helper = "test" }
    helper_directory = "%[4]s"
  }
  grant {
    kv { enabled = true }
    fs { read_only = ["%[3]s", "%[5]s"] }
    http { endpoint "https://%[1]s" {
      methods = ["GET", "POST", "DELETE"]
      paths   = ["/version", "/info", "/containers/", "/images/", "/exec/"]
    } }
  }
}`, address, ca, certificates, filepath.Dir(helper), filepath.Dir(ca)))
	n := s.start(t)
	n.awaitDriver(t, "docker", true)
	run := func(job, image, status string) string {
		t.Helper()
		text := fmt.Sprintf(containerJob, job, "docker", `"count", "10", "50", "end"`, fmt.Sprintf("image = %q\n        network_mode = \"host\"", image))
		n.out(t, "job", "run", "-detach", write(t, filepath.Join(t.TempDir(), "job.nomad.hcl"), text))
		return n.out(t, "alloc", "status", n.await(t, job, status).ID)
	}
	run("has", enginetest.Image, "complete")
	grant := fmt.Sprintf(`process { helper "%s" { args = ["get"] } }`, helper)
	require.Contains(t, run("denied", name+":1", "failed"), helper+" with these arguments is not granted: add plugin \"docker\" { grant { "+grant+" } }")
	write(t, s.config, strings.Replace(read(t, s.config), "kv {", grant+"\n    kv {", 1))
	n.reload(t)
	run("pulls", name+":1", "complete")
}
