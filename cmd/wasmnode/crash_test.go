package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/supervisor"
)

// Crash campaigns: WASMNODE_CRASH is how many rounds there are, WASMNODE_CRASH_SEED
// repeats one. "make crash N=…" runs one.
const (
	crashEnv     = "WASMNODE_CRASH"
	crashSeedEnv = "WASMNODE_CRASH_SEED"
	crashRounds  = 8
)

// TestCrash kills the agent at random instants, while jobs come, end and go, and looks
// from outside whether anything was lost, done twice, or left behind.
func TestCrash(t *testing.T) {
	c := &campaign{
		site: newSite(t, "wasi", "raw_exec"),
		rng:  rand.New(rand.NewPCG(1, number(t, crashSeedEnv, 1))),
		jobs: map[string]*crashJob{},
	}
	c.site.grant(t, `plugin "raw_exec" { grant { process { commands = ["/bin/sh"] } } }`)
	c.print, c.exit = c.site.program(t, "print"), c.site.program(t, "exit")
	c.supervisor = supervisor.NewClient(supervisor.ClientConfig{
		Logger: hclog.NewNullLogger(), Socket: supervisor.Socket(filepath.Join(c.site.data, "supervisor")),
	})
	defer func() { require.NoError(t, c.supervisor.Close()) }()
	rounds := number(t, crashEnv, crashRounds)
	for round := range rounds {
		t.Logf("round %d: %d jobs", round, len(c.jobs))
		c.round(t)
	}
}

func number(t *testing.T, env string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(env)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, "%s", env)
	return n
}

type campaign struct {
	site        *site
	rng         *rand.Rand
	supervisor  *supervisor.Client
	print, exit string // programs
	made        int
	jobs        map[string]*crashJob
}

// crashJob is what was asked for, and what was seen of it.
type crashJob struct {
	id      string
	lines   int // of output; 0: it never ends
	code    int
	stopped bool
	alloc   string // its one allocation, once it was seen
}

// round works against an agent, kills it meanwhile, and checks what the next one has.
func (c *campaign) round(t *testing.T) {
	n := c.site.start(t)
	killed := make(chan struct{})
	after := time.Duration(c.rng.IntN(400)) * time.Millisecond
	go func() {
		defer close(killed)
		time.Sleep(after)
		_ = n.cmd.Process.Signal(syscall.SIGKILL)
		<-n.exited
	}()
	for range 1 + c.rng.IntN(3) {
		c.work(t, n)
	}
	<-killed

	n = c.site.start(t)
	c.settle(t, n)
	c.check(t, n)
	for key, j := range c.jobs {
		if j.status() != "running" { // it was seen to its end
			n.out(t, "job", "stop", "-purge", "-detach", j.id)
			delete(c.jobs, key)
		}
	}
	require.Equal(t, -1, n.signal(t, syscall.SIGKILL))
}

// work asks for something. Whether it was done is looked up later.
func (c *campaign) work(t *testing.T, n *node) {
	var live []*crashJob
	for _, j := range c.jobs {
		if j.lines == 0 && j.code == 0 && !j.stopped {
			live = append(live, j)
		}
	}
	if len(live) > 3 || len(live) > 0 && c.rng.IntN(3) == 0 {
		j := live[c.rng.IntN(len(live))]
		j.stopped = n.run(t, "job", "stop", "-detach", j.id).code == 0
		return
	}
	c.made++
	j := &crashJob{id: fmt.Sprintf("job-%d", c.made)}
	kind, lines := "service", 1_000_000
	switch c.rng.IntN(3) {
	case 0:
		j.lines, lines, kind = 50, 50, "batch"
	case 1:
		j.code, lines, kind = 7, 0, "batch"
	}
	c.jobs[j.id] = j
	driver, config := c.command(lines, j.code)
	file := write(t, filepath.Join(t.TempDir(), j.id+".hcl"), fmt.Sprintf(onceJob, j.id, kind, driver, config))
	if n.run(t, "job", "run", "-detach", file).code != 0 {
		j.id += "?" // nobody knows
	}
}

// command is a task that prints so many lines, or ends with a code, as a program or as
// a process.
func (c *campaign) command(lines, code int) (driver, config string) {
	if c.rng.IntN(2) == 0 {
		script := fmt.Sprintf("i=1; while [ $i -le %d ]; do echo line $i; i=$((i+1)); sleep 0.005; done; exit %d", lines, code)
		return "raw_exec", fmt.Sprintf("command = \"/bin/sh\"\nargs = [\"-c\", %q]", script)
	}
	if code != 0 {
		return "wasi", fmt.Sprintf("module = %q\nargs = [\"%d\"]", c.exit, code)
	}
	return "wasi", fmt.Sprintf("module = %q\nargs = [\"-n\", \"%d\", \"-every\", \"5ms\"]", c.print, lines)
}

// onceJob is a job whose task is started once, whatever happens to it.
const onceJob = `job %q {
  type = %q
  group "group" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    ephemeral_disk {
      size = 10
    }
    task "task" {
      driver = %q
      config {
        %s
      }
      resources {
        cpu    = 1
        memory = 32
      }
    }
  }
}
`

// settle finds out what became of what the agent did not answer.
func (c *campaign) settle(t *testing.T, n *node) {
	for key, j := range c.jobs {
		unknown := strings.HasSuffix(j.id, "?")
		j.id = strings.TrimSuffix(j.id, "?")
		r := n.run(t, "job", "status", "-json", j.id)
		switch {
		case r.code == 0:
			j.stopped = j.stopped || strings.Contains(r.stdout, `"Stop": true`)
		case unknown:
			delete(c.jobs, key)
		default:
			require.Fail(t, "a job was forgotten", "%s: %s", j.id, r.stderr)
		}
	}
}

// check waits until the node is as it should be, and compares what is seen from
// outside.
func (c *campaign) check(t *testing.T, n *node) {
	running := map[string]bool{}
	for _, j := range c.jobs {
		alloc := n.awaitAlloc(t, j.id, func(a *api.AllocationListStub) bool { return a.ClientStatus == j.status() })
		if j.alloc == "" {
			j.alloc = alloc.ID
		}
		require.Equal(t, j.alloc, alloc.ID, "%s was placed twice", j.id)
		task := alloc.TaskStates["task"]
		require.Zero(t, task.Restarts, told(alloc))
		require.LessOrEqual(t, strings.Count(told(alloc), "Started:"), 1, told(alloc))
		if j.code != 0 {
			require.Contains(t, told(alloc), fmt.Sprintf("Exit Code: %d", j.code))
		}
		c.checkOutput(t, n, j)
		if j.status() == "running" {
			running[alloc.ID] = true
		}
	}
	require.Eventually(t, func() bool {
		list, err := c.supervisor.List(t.Context())
		if err != nil {
			return len(running) == 0
		}
		found := map[string]int{}
		for _, w := range list {
			if w.State == workload.Running {
				found[strings.SplitN(w.ID, "/", 2)[0]]++
			}
		}
		for id, n := range found {
			require.Equal(t, 1, n, "allocation %s runs more than once", id)
			if !running[id] {
				return false // it is being ended
			}
		}
		return len(found) == len(running)
	}, patience, tick, "what runs is what should: %v", running)
}

// status is the client status that the job's allocation comes to.
func (j *crashJob) status() string {
	switch {
	case j.code != 0:
		return "failed"
	case j.lines > 0 || j.stopped:
		return "complete"
	}
	return "running"
}

// checkOutput wants the lines from the first on, each once: a task that is started
// twice begins again, and a log that is lost has a gap.
func (c *campaign) checkOutput(t *testing.T, n *node, j *crashJob) {
	lines := strings.Split(n.out(t, "alloc", "logs", j.alloc), "\n")
	complete := lines[:len(lines)-1] // the last one is empty, or half written
	for i, line := range complete {
		require.Equal(t, fmt.Sprintf("line %d", i+1), line, "%s", j.id)
	}
	if j.lines > 0 {
		require.Len(t, complete, j.lines, "%s", j.id)
	}
}
