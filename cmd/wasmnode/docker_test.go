package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/enginetest"
	"github.com/wasmnode/wasmnode/managers/catalog"
)

// dockerRoundsEnv is how often an agent is killed while containers begin, run and end: 3 times
// without it. "make crash N=…" sets it.
const dockerRoundsEnv = "WASMNODE_DOCKER_CRASHES"

const countingJob = `job %q {
  type = "batch"
  group "g" {
    task "t" {
      driver = "docker"
      config {
        image        = %q
        network_mode = "host"
        command      = "/program"
        args         = ["count", "1000", "50", "end"]
      }
      resources {
        cpu    = 10
        memory = 32
      }
    }
  }
}
`

// dockerSite is a node with an engine.
func dockerSite(t *testing.T) (*site, *enginetest.Engine) {
	t.Helper()
	e := enginetest.Docker(t)
	s := newSite(t, "docker")
	s.grantDocker(t, e)
	return s, e
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

// crashPhases are what a container is in when its agent is killed: how long to wait for that once its
// job is there. Those of a job that is stopped begin with a container that has counted, and waits.
var crashPhases = []struct {
	name    string
	stopped bool
	reached func(t *testing.T, e *enginetest.Engine)
}{
	{"create", false, func(*testing.T, *enginetest.Engine) { time.Sleep(rand.N(300 * time.Millisecond)) }},
	{"start", false, func(t *testing.T, e *enginetest.Engine) {
		require.Eventually(t, func() bool { return len(e.Containers(t)) > 0 }, testTimeout, time.Millisecond)
	}},
	{"running", false, func(t *testing.T, e *enginetest.Engine) {
		require.Eventually(t, func() bool { return slices.Contains(states(e.Containers(t)), "running") }, testTimeout, time.Millisecond)
		time.Sleep(rand.N(600 * time.Millisecond)) // it counts for 400, and ends
	}},
	{"stop", true, func(*testing.T, *enginetest.Engine) { time.Sleep(rand.N(50 * time.Millisecond)) }},
	{"remove", true, func(t *testing.T, e *enginetest.Engine) {
		require.Eventually(t, func() bool { return !slices.Contains(states(e.Containers(t)), "running") }, testTimeout, time.Millisecond)
	}},
}

// Whenever the agent is killed, each job ends as if it had not been: its output is there, each
// line once, and nothing of it is left in the engine.
func TestContainersOutliveAgentsThatAreKilled(t *testing.T) {
	s, e := dockerSite(t)
	rounds := 3
	if text := os.Getenv(dockerRoundsEnv); text != "" {
		var err error
		rounds, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	n := s.start(t)
	n.awaitDriver(t, "docker", true)
	first := rand.N(len(crashPhases))
	for round := range rounds {
		at := crashPhases[(first+round)%len(crashPhases)]
		job := fmt.Sprint("count-", round)
		text := fmt.Sprintf(countingJob, job, enginetest.Image)
		if at.stopped {
			text = strings.Replace(text, `, "end"]`, `]`, 1)
		}
		n.out(t, "job", "run", "-detach", write(t, filepath.Join(t.TempDir(), "job.nomad.hcl"), text))
		if at.stopped {
			alloc := n.await(t, job, "running")
			require.Eventually(t, func() bool {
				return strings.HasSuffix(n.out(t, "alloc", "logs", "-stderr", alloc.ID), "e 1000\n") && strings.HasSuffix(n.out(t, "alloc", "logs", alloc.ID), "ready\n")
			}, testTimeout, tick)
			n.out(t, "job", "stop", "-detach", job)
		}
		at.reached(t, e)
		phase := fmt.Sprint(at.name, " ", states(e.Containers(t)))
		t.Logf("round %d: %s", round, phase)
		n.signal(t, syscall.SIGKILL)
		n = s.start(t)
		alloc := n.await(t, job, "complete")
		for flag, stream := range map[string]string{"-stdout": "o", "-stderr": "e"} {
			got := n.out(t, "alloc", "logs", flag, alloc.ID)
			if at.stopped && stream == "o" {
				var after string
				got, after, _ = strings.Cut(got, "ready\n")
				require.Equal(t, "got terminated\n", after, "round %d, containers at the kill: %s", round, phase)
			}
			requireCounted(t, got, stream, 1000, "round %d, containers at the kill: %s", round, phase)
		}
		require.Eventually(t, func() bool { return len(e.Containers(t)) == 0 }, testTimeout, tick, "left over in round %d", round)
	}
}

func states(containers []enginetest.Container) (all []string) {
	for _, c := range containers {
		all = append(all, c.State)
	}
	return all
}

// requireCounted requires the lines that the program counts, each once.
func requireCounted(t *testing.T, text, stream string, to int, format string, args ...any) {
	t.Helper()
	var want strings.Builder
	for i := 1; i <= to; i++ {
		fmt.Fprintln(&want, stream, i)
	}
	if text == want.String() {
		return
	}
	got := strings.SplitAfter(text, "\n")
	for i, line := range strings.SplitAfter(want.String(), "\n") {
		if i >= len(got) || got[i] != line {
			require.FailNow(t, "the output differs", fmt.Sprintf("%s: line %d is %q, want %q", fmt.Sprintf(format, args...), i+1, got[min(i, len(got)-1)], line))
		}
	}
	require.FailNow(t, "there is more output", fmt.Sprintf(format, args...))
}

func TestACommandRunsInAContainer(t *testing.T) {
	s, e := dockerSite(t)
	n := s.start(t)
	n.awaitDriver(t, "docker", true)
	text := strings.Replace(fmt.Sprintf(countingJob, "waiting", e.Name), `"docker"`+"\n        network", `"`+enginetest.Image+`"`+"\n        network", 1)
	text = strings.Replace(text, `"count", "1000", "50", "end"`, `"wait"`, 1)
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
		tt.resize(t, 50, 120)
		tt.await(t, `size 50x120\r\n`)
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
		n.out(t, "job", "run", "-detach", write(t, filepath.Join(t.TempDir(), "job.nomad.hcl"), fmt.Sprintf(countingJob, job, image)))
		return n.out(t, "alloc", "status", n.await(t, job, status).ID)
	}
	run("has", enginetest.Image, "complete")
	grant := fmt.Sprintf(`process { helper "%s" { args = ["get"] } }`, helper)
	require.Contains(t, run("denied", name+":1", "failed"), helper+" with these arguments is not granted: add plugin \"docker\" { grant { "+grant+" } }")
	write(t, s.config, strings.Replace(read(t, s.config), "kv {", grant+"\n    kv {", 1))
	n.reload(t)
	run("pulls", name+":1", "complete")
}
