package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/enginetest"
	"github.com/wasmnode/wasmnode/internal/wake"
)

// containerRoundsEnv is how often an agent is killed with each engine while containers are
// pulled, begin, run commands and end: 1 to 3 times without it. "make crash N=…" sets it.
const containerRoundsEnv = "WASMNODE_CONTAINER_CRASHES"

const containerJob = `job %q {
  type = "batch"
  group "g" {
    task "t" {
      driver = %q
      config {
        command = "/program"
        args    = [%s]
        %s
      }
      resources {
        cpu    = 10
        memory = 32
      }
    }
  }
}
`

// crashPhase is what a container is in when its agent is killed.
type crashPhase struct {
	name  string
	waits bool // it begins with a container that has counted, and waits to be stopped
	pulls bool // its image is pulled
	// reached begins it, once its job is there, and returns in the middle of it.
	reached func(r *crashRound, t *testing.T)
	// after is what there is to do with the next agent, for the job to end.
	after func(r *crashRound, t *testing.T)
}

// crashPhases are all. A container counts for 400 ms.
var crashPhases = []crashPhase{
	{name: "exec", waits: true, reached: (*crashRound).command, after: (*crashRound).commandAgain},
	{name: "pull", pulls: true, reached: (*crashRound).pull, after: func(r *crashRound, _ *testing.T) { r.gate.open() }},
	{name: "create", reached: func(*crashRound, *testing.T) { time.Sleep(rand.N(300 * time.Millisecond)) }},
	{name: "start", reached: func(r *crashRound, t *testing.T) {
		r.seen(t, func(states []string) bool { return len(states) > 0 })
	}},
	{name: "running", reached: func(r *crashRound, t *testing.T) {
		r.seen(t, func(states []string) bool { return slices.Contains(states, "running") })
		time.Sleep(rand.N(600 * time.Millisecond))
	}},
	{name: "stop", waits: true, reached: func(r *crashRound, t *testing.T) {
		r.node.out(t, "job", "stop", "-detach", r.job)
		time.Sleep(rand.N(50 * time.Millisecond))
	}},
	{name: "remove", waits: true, reached: func(r *crashRound, t *testing.T) {
		r.node.out(t, "job", "stop", "-detach", r.job)
		require.Eventually(t, func() bool { return !slices.Contains(r.states(t), "running") }, testTimeout, time.Millisecond)
	}},
}

// engineSite is a node with an engine.
type engineSite struct {
	*site
	driver  string
	states  func(t *testing.T) []string // of all containers
	config  string                      // of a task, but for what it runs
	pulled  string                      // the same of one whose image is pulled, through the gate; "": none is
	gate    *gate
	execute []string                // the options and the command that says when it is ready, and goes on
	ended   func(t *testing.T) bool // whether the engine has ended the commands of an agent that is killed
}

// Whenever the agent is killed, each job ends as if it had not been: its output is there, each
// line once, and nothing of it is left in the engine.
func TestContainersOutliveAgentsThatAreKilled(t *testing.T) {
	for name, site := range map[string]func(*testing.T) *engineSite{
		"docker":     func(t *testing.T) *engineSite { return siteOfDocker(t, enginetest.Docker(t)) },
		"podman":     func(t *testing.T) *engineSite { return siteOfDocker(t, enginetest.Podman(t)) },
		"containerd": siteOfContainerd,
	} {
		t.Run(name, func(t *testing.T) {
			rounds := map[string]int{"docker": 3, "podman": 1, "containerd": 3}[name]
			if text := os.Getenv(containerRoundsEnv); text != "" {
				var err error
				rounds, err = strconv.Atoi(text)
				require.NoError(t, err)
			}
			site(t).crash(t, rounds)
		})
	}
}

func siteOfDocker(t *testing.T, e *enginetest.Engine) *engineSite {
	t.Helper()
	registry := enginetest.Registry(t)
	g := newGate(t, registry)
	name := g.address + "/counting"
	e.Publish(t, enginetest.Image, name)
	config := func(image string) string { return fmt.Sprintf("image = %q\n        network_mode = \"host\"", image) }
	return &engineSite{
		site: siteWith(t, e), driver: "docker", gate: g,
		states: func(t *testing.T) (all []string) {
			for _, c := range e.Containers(t) {
				all = append(all, c.State)
			}
			return all
		},
		config: config(enginetest.Image),
		pulled: config(name+":1") + fmt.Sprintf(`
        force_pull = true
        auth {
          username = %q
          password = %q
        }`, enginetest.User, enginetest.Password),
		execute: []string{"-i", "ALLOC", "/program", "echo"},
		ended:   func(t *testing.T) bool { return e.Processes(t, e.Containers(t)[0].ID) == 1 },
	}
}

// crash kills the agent in one phase after the other, the first one first.
func (s *engineSite) crash(t *testing.T, rounds int) {
	t.Helper()
	n := s.start(t)
	n.awaitDriver(t, s.driver, true)
	phases := slices.DeleteFunc(slices.Clone(crashPhases), func(p crashPhase) bool { return p.pulls && s.pulled == "" })
	first, seen := rand.N(len(phases)-1), map[string]int{}
	for i := range rounds {
		at := phases[0]
		if i%len(phases) > 0 {
			at = phases[1+(first+i)%(len(phases)-1)]
		}
		seen[at.name]++
		r := &crashRound{engineSite: s, node: n, job: fmt.Sprint("count-", i)}
		n = r.run(t, at)
	}
	t.Logf("%d agents killed: %v", rounds, seen)
}

// crashRound is one kill of an agent.
type crashRound struct {
	*engineSite
	node  *node // the one that is killed, then the next one
	job   string
	alloc string
	ends  func() // the command of the phase "exec"
}

// run returns the next agent, with which the job has ended.
func (r *crashRound) run(t *testing.T, at crashPhase) *node {
	t.Helper()
	config, args := r.config, `"count", "1000", "50", "end"`
	if at.pulls {
		config = r.pulled
	}
	if at.waits {
		args = `"count", "1000", "50"`
	}
	text := fmt.Sprintf(containerJob, r.job, r.driver, args, config)
	if at.pulls {
		r.gate.close()
	}
	r.node.out(t, "job", "run", "-detach", write(t, filepath.Join(t.TempDir(), "job.nomad.hcl"), text))
	if at.waits {
		r.alloc = r.node.await(t, r.job, "running").ID
		require.Eventually(t, func() bool {
			return strings.HasSuffix(r.node.out(t, "alloc", "logs", "-stderr", r.alloc), "e 1000\n") && strings.HasSuffix(r.node.out(t, "alloc", "logs", r.alloc), "ready\n")
		}, testTimeout, tick)
	}
	at.reached(r, t)
	phase := fmt.Sprintf("%s: %s, containers at the kill: %v", r.job, at.name, r.states(t))
	t.Log(phase)
	r.node.signal(t, syscall.SIGKILL)
	r.node = r.start(t)
	if at.after != nil {
		at.after(r, t)
	}
	alloc := r.node.await(t, r.job, "complete")
	for flag, stream := range map[string]string{"-stdout": "o", "-stderr": "e"} {
		got := r.node.out(t, "alloc", "logs", flag, alloc.ID)
		if at.waits && stream == "o" {
			var after string
			got, after, _ = strings.Cut(got, "ready\n")
			require.Equal(t, "got terminated\n", after, phase)
		}
		requireCounted(t, got, stream, 1000, phase)
	}
	require.Eventually(t, func() bool { return len(r.states(t)) == 0 }, testTimeout, tick, "left over: %s", phase)
	return r.node
}

// seen waits for the containers to be so, or for the job's end, which a slow machine sees first.
func (r *crashRound) seen(t *testing.T, are func(states []string) bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		return are(r.states(t)) || slices.ContainsFunc(r.node.allocs(t, r.job), func(a *nomad.AllocationListStub) bool { return a.ClientStatus == "complete" })
	}, testTimeout, time.Millisecond)
}

// pull returns while the engine waits for the registry, or soon after that has answered.
func (r *crashRound) pull(t *testing.T) {
	t.Helper()
	select {
	case <-r.gate.arrived:
	case <-time.After(testTimeout):
		require.FailNow(t, "the engine does not ask the registry")
	}
	if rand.N(2) == 0 {
		r.gate.open()
	}
	time.Sleep(rand.N(200 * time.Millisecond))
}

// command returns while a command runs in the container.
func (r *crashRound) command(t *testing.T) {
	t.Helper()
	args := slices.Clone(r.execute)
	args[slices.Index(args, "ALLOC")] = r.alloc
	cmd := r.node.command(append([]string{"alloc", "exec", "-t=false"}, args...)...)
	said := &transcript{grown: wake.New()}
	cmd.Stdout, cmd.Stderr = said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
	})
	r.ends = func() { requireEnds(t, cmd, exited) }
	if slices.Contains(args, "-i") {
		_, err = io.WriteString(input, "ready\n")
		require.NoError(t, err)
	}
	said.await(t, regexp.MustCompile("ready"), exited)
}

// requireEnds requires that a command ends whose agent was killed, and says so.
func requireEnds(t *testing.T, cmd *exec.Cmd, exited <-chan struct{}) {
	t.Helper()
	select {
	case <-exited:
		require.NotZero(t, cmd.ProcessState.ExitCode())
	case <-time.After(testTimeout):
		require.FailNow(t, "the command waits for an agent that is gone")
	}
}

// commandAgain runs another command, and stops the job.
func (r *crashRound) commandAgain(t *testing.T) {
	t.Helper()
	r.ends()
	require.Eventually(t, func() bool { return r.ended(t) }, testTimeout, tick, "the command of the agent that was killed goes on")
	r.node.await(t, r.job, "running")
	r.node.awaitDriver(t, r.driver, true)
	require.Equal(t, result{3, "out", "err"}, r.node.run(t, "alloc", "exec", "-t=false", "-i=false", r.alloc, "/program", "print", "out", "err", "3"))
	r.node.out(t, "job", "stop", "-detach", r.job)
}

// gate is before a registry. While it is closed, who asks the registry waits.
type gate struct {
	http.Handler
	address string
	arrived chan struct{} // somebody waits; room for one
	mu      sync.Mutex
	opened  chan struct{} // closed while it is open
}

func newGate(t *testing.T, registry string) *gate {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: registry})
	proxy.Transport = &http.Transport{DisableKeepAlives: true}
	proxy.ErrorLog = nil
	g := &gate{Handler: proxy, arrived: make(chan struct{}, 1), opened: make(chan struct{})}
	close(g.opened)
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	g.address = server.Listener.Addr().String()
	return g
}

// ServeHTTP implements [http.Handler].
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-opened:
	default:
		select {
		case g.arrived <- struct{}{}:
		default:
		}
		select {
		case <-opened:
		case <-r.Context().Done():
			return
		}
	}
	g.Handler.ServeHTTP(w, r)
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = make(chan struct{})
	select {
	case <-g.arrived:
	default:
	}
}

// open opens it, also again.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		close(g.opened)
	}
}

// requireCounted requires the lines that the program counts, each once.
func requireCounted(t *testing.T, text, stream string, to int, where string) {
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
			require.FailNow(t, "the output differs", "%s: line %d is %q, want %q", where, i+1, got[min(i, len(got)-1)], line)
		}
	}
	require.FailNow(t, "there is more output", where)
}
