package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Crash campaigns: WASMNODE_CRASH is how many rounds there are, and has every failpoint
// be tried at each time that it is passed; WASMNODE_CRASH_SEED repeats a campaign.
// "make crash N=…" runs one.
const (
	crashEnv     = "WASMNODE_CRASH"
	crashSeedEnv = "WASMNODE_CRASH_SEED"
	crashRounds  = 100
	crashWorlds  = 4 // at a time: a round mostly waits
)

// TestCrash kills the agent, the supervisor or both at random instants, while jobs come,
// end, fail and go, and looks from outside whether anything was lost, done twice, or
// left behind.
func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a node a hundred times")
	}
	rounds, seed := number(t, crashEnv, crashRounds), number(t, crashSeedEnv, 1)
	for i := range uint64(crashWorlds) {
		t.Run(fmt.Sprintf("world %d", i), func(t *testing.T) {
			t.Parallel()
			c := &campaign{crashWorld: newCrashWorld(t), rng: rand.New(rand.NewPCG(seed, i))}
			for round := range (rounds + crashWorlds - 1) / crashWorlds {
				t.Logf("round %d: %d jobs, %d deaths of the supervisor", round, len(c.jobs), c.deaths)
				c.round(t)
			}
			c.end(t)
		})
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

// campaign is a world with chance in it.
type campaign struct {
	*crashWorld
	rng *rand.Rand
}

// round works against an agent while something is killed, and checks what is left of
// it, by the same agent or the next.
func (c *campaign) round(t *testing.T) {
	if c.node == nil {
		c.start(t)
	}
	agent, super := true, false
	switch c.rng.IntN(5) {
	case 0:
		agent, super = false, true
	case 1:
		super = true
	}
	after := time.Duration(c.rng.IntN(150)) * time.Millisecond
	killed, node := make(chan bool), c.node
	go func() {
		time.Sleep(after)
		if agent {
			_ = node.cmd.Process.Signal(syscall.SIGKILL)
		}
		killed <- super && c.site.killSupervisor(t)
	}()
	for range 1 + c.rng.IntN(3) {
		c.work(t)
	}
	if <-killed {
		c.deaths++
	}
	if agent {
		<-node.exited
		c.node = nil
		if c.rng.IntN(3) == 0 {
			c.killDuringStart(t)
		}
		c.start(t)
	}
	c.check(t)
	c.forget(t)
}

// killDuringStart kills an agent that has only begun to take up what there is.
func (c *campaign) killDuringStart(t *testing.T) {
	cmd := c.command()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	time.Sleep(time.Duration(c.rng.IntN(200)) * time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
}

// work asks for something. Whether it was done is looked up later.
func (c *campaign) work(t *testing.T) {
	var live []string
	for id, j := range c.jobs {
		if j.kind == runsOn && !j.stopped && !j.unsure {
			live = append(live, id)
		}
	}
	slices.Sort(live) // the same seed does the same
	if len(live) > 3 || len(live) > 0 && c.rng.IntN(3) == 0 {
		c.stop(t, c.jobs[live[c.rng.IntN(len(live))]])
		return
	}
	kind := []crashKind{runsOn, ends, fails}[c.rng.IntN(3)]
	c.register(t, c.newJob(kind, c.rng.IntN(2) == 0))
}
