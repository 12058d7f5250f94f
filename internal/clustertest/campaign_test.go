package clustertest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
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
)

// A campaign: WASMNODE_CLUSTER is how many rounds it has, WASMNODE_CLUSTER_SEED repeats one.
// "make cluster N=…" runs one.
const (
	roundsEnv = "WASMNODE_CLUSTER"
	seedEnv   = "WASMNODE_CLUSTER_SEED"
	rounds    = 8
	// cuts are the rounds after those, in which nothing but the connection suffers.
	cuts = 12
)

// TestFaults kills the agent, the supervisor or the server at random instants, or spoils the
// connection between node and server, while jobs come, end, fail, change and go. It looks
// whether servers and node agree then, and whether anything was lost, done twice, or left
// behind.
func TestFaults(t *testing.T) { faults(t, 1) }

// TestFaultsWithThreeServers kills any of three, and spoils what they say to each other, too.
func TestFaultsWithThreeServers(t *testing.T) { faults(t, 3) }

func faults(t *testing.T, servers int) {
	list := binaries(t)
	seed := number(t, seedEnv, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d repeats this", seedEnv, seed)
	c := newCampaign(t, list[len(list)-1], servers, seed)
	for range number(t, roundsEnv, rounds) {
		c.round(t, c.draw())
	}
	c.clear(t)
	before := c.open(t)
	for range cuts {
		c.round(t, fault{name: "cut", after: c.upTo(500), lasts: c.upTo(500), mood: c.anyMood(), cut: true})
	}
	c.clear(t)
	eventually(t, "what was opened to be closed", func() (bool, string) {
		now := c.open(t)
		return now.goroutines < before.goroutines+cuts/2 && now.files < before.files+cuts/2,
			fmt.Sprintf("%d goroutines, %d files:\n%s\nbefore, %d and %d:\n%s", now.goroutines, now.files, now.profile, before.goroutines, before.files, before.profile)
	})
	t.Logf("%d jobs, %d deaths of the supervisor; %d goroutines and %d files at rest", c.made, c.kills, before.goroutines, before.files)
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

// campaign is servers and a node with proxies between them, and what was asked of them.
type campaign struct {
	servers []*server
	server  *server // the one that is asked in this round
	agent   *process
	proxies []*proxy
	data    string // the node's directory
	node    string // its ID
	rng     *rand.Rand
	kills   int // of the supervisor, so far
	made    int
	played  int              // rounds, so far
	jobs    map[string]*task // by the job's ID
}

func newCampaign(t *testing.T, binary string, servers int, seed uint64) *campaign {
	c := &campaign{rng: rand.New(rand.NewPCG(seed, 0)), jobs: map[string]*task{}}
	var addresses []string
	for range servers {
		p := startProxy(t)
		c.proxies, addresses = append(c.proxies, p), append(addresses, p.address())
	}
	c.servers = startServers(t, binary, servers, "", c.proxies...)
	c.server = c.servers[0]
	c.agent = nodeSpec{name: "ours", servers: addresses, more: "enable_debug = true"}.start(t)
	c.data, c.node = c.agent.data(), c.server.ready(t, "ours")
	return c
}

// task is what was asked for, and how it is to end.
type task struct {
	id          string
	script      string
	starts      int // without a death of the supervisor
	attempts    int // of the restart policy, of which a start costs one that the supervisor does not survive
	status      string
	killsBefore int
	version     int
	unsure      bool // whether it was registered
	stopped     bool // which was acknowledged, or seen
}

// begin notes a task's start in a file, and that it is not alone.
const begin = `cd "$NOMAD_ALLOC_DIR/data"; echo start >>starts; exec 9>lock; flock -n 9 || echo twice >>twice; `

// ways are what tasks do.
var ways = []task{
	{id: "stays", script: begin + "exec sleep 100000", starts: 1, attempts: 1000, status: "running"},
	{id: "ends", script: begin + "sleep 0.3; exit 0", starts: 1, attempts: 1000, status: "complete"},
	{id: "fails", script: begin + "sleep 0.05; exit 7", starts: 3, attempts: 2, status: "failed"},
}

func (k *task) job() *nomad.Job {
	kind := map[bool]string{true: "service", false: "batch"}[k.status == "running"]
	j := job(k.id, kind, k.script)
	g := j.TaskGroups[0]
	g.RestartPolicy = &nomad.RestartPolicy{Attempts: ref(k.attempts), Interval: ref(time.Hour), Delay: ref(time.Millisecond), Mode: ref("fail")}
	if kind == "batch" {
		g.ReschedulePolicy = &nomad.ReschedulePolicy{Attempts: ref(0), Unlimited: ref(false)}
	}
	g.Tasks[0].Env = map[string]string{"VERSION": strconv.Itoa(k.version)}
	return j
}

// expected is the status that an allocation that is wanted comes to.
func (k *task) expected() string {
	if k.stopped && k.status == "running" {
		return "complete"
	}
	return k.status
}

// fault is what goes wrong in a round.
type fault struct {
	name               string
	after              time.Duration  // the round's begin
	agent              syscall.Signal // to the agent; 0: none
	server, supervisor bool           // killed
	which              int            // of the servers
	cut                bool           // all connections, at once
	mood               mood           // of the proxy
	lasts              time.Duration  // the mood, and that what was killed is away
	restless           bool           // the next agent is killed while it starts
}

func (f fault) String() string {
	return fmt.Sprintf("%s after %v for %v %+v", f.name, f.after, f.lasts, f.mood)
}

func (c *campaign) upTo(milliseconds int) time.Duration {
	return time.Duration(c.rng.IntN(milliseconds)) * time.Millisecond
}

func (c *campaign) anyMood() mood {
	return []mood{
		{}, {refuse: true}, {stall: true}, {delay: 20*time.Millisecond + c.upTo(200)}, {halve: true},
	}[c.rng.IntN(5)]
}

// draw draws a round's fault.
func (c *campaign) draw() fault {
	f := fault{after: c.upTo(1500), lasts: c.upTo(1500)}
	kill := []syscall.Signal{syscall.SIGKILL, syscall.SIGKILL, syscall.SIGINT}[c.rng.IntN(3)]
	f.restless, f.which = c.rng.IntN(4) == 0, c.rng.IntN(len(c.servers))
	switch c.rng.IntN(8) {
	case 0, 1:
		f.name, f.agent = "agent", kill
	case 2:
		f.name, f.server = "server", true
	case 3:
		f.name, f.supervisor = "supervisor", true
	case 4:
		f.name, f.agent, f.supervisor = "agent and supervisor", kill, true
	case 5:
		f.name, f.agent, f.server = "agent and server", kill, true
	case 6:
		f.name, f.mood, f.cut = "connection", c.anyMood(), c.rng.IntN(2) == 0
	case 7:
		f.name, f.agent, f.mood, f.cut = "agent and connection", kill, c.anyMood(), true
	}
	return f
}

// round works while something goes wrong, and looks at what is left of it.
func (c *campaign) round(t *testing.T, f fault) {
	t.Helper()
	c.played++
	t.Logf("%s: round %d: %d jobs, %d deaths of the supervisor: %s", time.Now().Format(time.TimeOnly), c.played, len(c.jobs), c.kills, f)
	killed := make(chan bool)
	c.server = c.servers[c.rng.IntN(len(c.servers))]
	watched := c.watch(t)
	go func() {
		died := false
		defer func() { killed <- died }() // also when the test has failed in there
		time.Sleep(f.after)
		died = c.happen(t, f)
	}()
	for range 1 + c.rng.IntN(3) {
		c.work()
	}
	if <-killed {
		c.kills++
	}
	for _, s := range c.servers {
		s.awaitLeader(t)
	}
	c.settle(t)
	c.check(t)
	watched()
	c.forget(t)
}

// happen has a fault happen, and ends it. It reports whether a supervisor was killed.
func (c *campaign) happen(t *testing.T, f fault) (killed bool) {
	for _, p := range c.proxies {
		p.be(f.mood)
		if f.cut {
			p.cut()
		}
	}
	if f.agent != 0 {
		c.agent.end(f.agent)
	}
	killed = f.supervisor && c.killSupervisor()
	if f.server {
		c.servers[f.which].end(syscall.SIGKILL)
	}
	time.Sleep(f.lasts)
	for _, p := range c.proxies {
		p.be(mood{})
		if f.mood.stall {
			p.cut() // what was held back comes too late
		}
	}
	if f.server {
		c.servers[f.which].start(t)
	}
	if f.agent != 0 {
		c.agent.start(t)
		if f.restless {
			time.Sleep(f.lasts / 4)
			c.agent.end(syscall.SIGKILL)
			c.agent.start(t)
		}
	}
	return killed
}

// killSupervisor kills what owns the tasks, and reports whether there was one. It has ended then.
func (c *campaign) killSupervisor() bool {
	pid, err := os.ReadFile(filepath.Join(c.data, "supervisor", "lock"))
	if err != nil {
		return false
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(pid)))
	if err != nil || !runs(n) {
		return false
	}
	endSupervisor(c.data)
	for runs(n) {
		time.Sleep(time.Millisecond)
	}
	return true
}

// runs reports whether there is a process that has not ended.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// work asks for something. Whether it was done is looked up later.
func (c *campaign) work() {
	var live []string
	for id, k := range c.jobs {
		if k.status == "running" && !k.stopped && !k.unsure {
			live = append(live, id)
		}
	}
	slices.Sort(live) // the same seed does the same
	if len(live) > 0 && (len(live) > 4 || c.rng.IntN(3) == 0) {
		k := c.jobs[live[c.rng.IntN(len(live))]]
		if c.rng.IntN(2) == 0 {
			k.version++
			_, _, _ = c.server.client.Jobs().Register(k.job(), nil) // or not
			return
		}
		_, _, err := c.server.client.Jobs().Deregister(k.id, false, nil)
		k.stopped = err == nil // else it is looked up
		return
	}
	c.made++
	k := ways[c.rng.IntN(len(ways))]
	k.id, k.killsBefore = fmt.Sprintf("%s-%d", k.id, c.made), c.kills
	c.jobs[k.id] = &k
	_, _, err := c.server.client.Jobs().Register(k.job(), nil)
	k.unsure = err != nil
}

// settle finds out what became of what the server did not answer.
func (c *campaign) settle(t *testing.T) {
	t.Helper()
	for id, k := range c.jobs {
		var job *nomad.Job
		err := c.answered(t, "job "+id, func() (err error) {
			job, _, err = c.server.client.Jobs().Info(id, nil)
			return err
		})
		switch {
		case err == nil:
			require.False(t, k.stopped && !*job.Stop, "the stop of %s was forgotten", id)
			k.unsure, k.stopped = false, *job.Stop
		case k.unsure && strings.Contains(err.Error(), "404"):
			delete(c.jobs, id)
		default:
			require.Fail(t, "a job was forgotten", "%s: %v", id, err)
		}
	}
}

// answered asks a server until it has an answer: what servers have kept open to each other may be lost,
// which they notice only now.
func (c *campaign) answered(t *testing.T, what string, ask func() error) (err error) {
	t.Helper()
	eventually(t, what, func() (bool, string) {
		err = ask()
		return err == nil || !strings.Contains(err.Error(), "500"), fmt.Sprint(err)
	})
	return err
}

// deregister stops a job, or purges it, which has been asked for.
func (c *campaign) deregister(t *testing.T, id string, purge bool) {
	t.Helper()
	require.NoError(t, c.answered(t, "the end of "+id, func() error {
		_, _, err := c.server.client.Jobs().Deregister(id, purge, nil)
		return err
	}))
}

// check waits until servers and node agree on each job, and both are right.
func (c *campaign) check(t *testing.T) {
	t.Helper()
	for _, k := range c.jobs {
		eventually(t, "agreement on "+k.id, func() (bool, string) {
			list, _, err := c.server.client.Jobs().Allocations(k.id, true, nil)
			if err != nil {
				return false, err.Error()
			}
			state, wanted := "", 0
			for _, a := range list {
				state += fmt.Sprintf("%s %s/%s; ", a.ID[:8], a.DesiredStatus, a.ClientStatus)
				if why := c.wrong(k, a); why != "" {
					return false, state + why
				}
				if a.DesiredStatus == "run" {
					wanted++
				}
			}
			want := 1
			if k.stopped && k.status == "running" {
				want = 0
			}
			return wanted == want || k.stopped, state
		})
	}
}

// wrong is what is not as it has to be of an allocation; empty: nothing.
func (c *campaign) wrong(k *task, a *nomad.AllocationListStub) string {
	want := k.expected()
	if a.DesiredStatus != "run" && want == "running" {
		want = "complete" // one of an older version
	}
	if a.ClientStatus != want && (!k.stopped || a.ClientStatus != "complete") {
		return "it is not " + want
	}
	dir := filepath.Join(c.data, "alloc", a.ID, "alloc", "data")
	if _, err := os.Stat(filepath.Join(dir, "twice")); err == nil {
		return "it ran twice at a time"
	}
	if held := locked(filepath.Join(dir, "lock")); held != (a.ClientStatus == "running") {
		return fmt.Sprintf("that it runs is %v", held)
	}
	starts, err := os.ReadFile(filepath.Join(dir, "starts"))
	if err != nil {
		if k.stopped || a.DesiredStatus != "run" {
			return "" // before it had begun
		}
		return err.Error()
	}
	n := strings.Count(string(starts), "start")
	deaths := c.kills - k.killsBefore
	if least, most := max(1, k.starts-deaths), k.starts+deaths; n > most || n < least && want == k.status {
		return fmt.Sprintf("it was started %d times, and not %d to %d", n, least, most)
	}
	return ""
}

// locked reports whether a process has the lock of a file, without trying it.
func locked(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	locks, err := os.ReadFile("/proc/locks")
	return err == nil && regexp.MustCompile(fmt.Sprintf(`(?m)^\d+: FLOCK .*:%d 0 EOF$`, info.Sys().(*syscall.Stat_t).Ino)).Match(locks)
}

// forget purges the jobs that have come to their end, which the node then has nothing of.
func (c *campaign) forget(t *testing.T) {
	t.Helper()
	for id, k := range c.jobs {
		if k.expected() != "running" {
			c.deregister(t, id, true)
			delete(c.jobs, id)
		}
	}
}

// watch follows a task's log and runs a command in it, as long as that goes well.
func (c *campaign) watch(t *testing.T) (end func()) {
	var of string
	for id, k := range c.jobs {
		if k.expected() == "running" && (of == "" || id < of) {
			of = id
		}
	}
	if of == "" {
		return func() {}
	}
	list, _, err := c.server.client.Jobs().Allocations(of, false, nil)
	if err != nil || len(list) == 0 {
		return func() {}
	}
	a := &nomad.Allocation{ID: list[0].ID, NodeID: list[0].NodeID}
	ctx, cancel := context.WithCancel(t.Context())
	frames, errs := c.server.client.AllocFS().Logs(a, true, "t", "stdout", "start", 0, ctx.Done(), nil)
	var running sync.WaitGroup
	running.Go(func() {
		keyboard, typist := io.Pipe() // nobody types
		defer func() { _ = typist.Close() }()
		_, _ = c.server.client.Allocations().Exec(ctx, a, "t", false, []string{"cat"}, keyboard, io.Discard, io.Discard, nil, nil)
	})
	running.Go(func() {
		for {
			select {
			case <-frames:
			case err := <-errs:
				if err != nil { // it was cut
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// opened is what an agent has open, without the connections that it keeps to its supervisor.
type opened struct {
	goroutines, files int
	profile           string
}

// open is what the agent has open now.
func (c *campaign) open(t *testing.T) (o opened) {
	t.Helper()
	eventually(t, "the agent's profile", func() (bool, string) {
		profile, err := c.server.client.Agent().Lookup("goroutine", nomad.PprofOptions{NodeID: c.node, Debug: 1}, nil)
		o.profile = string(profile)
		return err == nil, fmt.Sprint(err)
	})
	head, stacks, _ := strings.Cut(o.profile, "\n")
	_, err := fmt.Sscanf(head, "goroutine profile: total %d", &o.goroutines)
	require.NoError(t, err)
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.agent.cmd.Process.Pid))
	require.NoError(t, err)
	o.files = len(files)
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		var n int
		if strings.Contains(stack, "http.(*persistConn).writeLoop") {
			_, err := fmt.Sscanf(stack, "%d @", &n)
			require.NoError(t, err)
			o.goroutines -= 2 * n // and one that reads
			o.files -= n
		}
	}
	return o
}

// clear stops everything, and wants nothing to be left.
func (c *campaign) clear(t *testing.T) {
	t.Helper()
	for _, k := range c.jobs {
		c.deregister(t, k.id, false)
		k.stopped = true
	}
	c.check(t)
	c.forget(t)
	eventually(t, "the node to have nothing left", func() (bool, string) {
		if err := c.server.client.System().GarbageCollect(); err != nil {
			return false, err.Error()
		}
		left, err := os.ReadDir(filepath.Join(c.data, "alloc"))
		return err == nil && len(left) == 0, fmt.Sprint(len(left), err)
	})
}
