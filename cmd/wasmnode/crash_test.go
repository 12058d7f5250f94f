package main

import (
	"errors"
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

// TestCrash kills the agent, the supervisor or both at random instants, or ends the agent,
// while jobs come, end, fail and go. Meanwhile the disk fills up; the next agent may be
// another build, and find files of an older schema, or a damaged one. It looks from outside
// whether anything was lost, done twice, or left behind.
func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a node a hundred times")
	}
	rounds, seed := number(t, crashEnv, crashRounds), number(t, crashSeedEnv, 1)
	for i := range uint64(crashWorlds) {
		t.Run(fmt.Sprintf("world %d", i), func(t *testing.T) {
			t.Parallel()
			dir, disk := campaignDir(t)
			c := &campaign{crashWorld: newCrashWorldIn(t, dir), rng: rand.New(rand.NewPCG(seed, i))}
			for round := range (rounds + crashWorlds - 1) / crashWorlds {
				f := drawFaults(c.rng)
				f.full = f.full && disk
				t.Logf("round %d: %d jobs, %d deaths of the supervisor: %s", round, len(c.jobs), c.kills, f)
				c.round(t, f)
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

// round works against an agent while something goes wrong, and checks what is left of
// it, by the same agent or the next.
func (c *campaign) round(t *testing.T, f *faults) {
	if c.node == nil {
		c.start(t)
	}
	killed, node := make(chan bool), c.node
	go func() {
		time.Sleep(f.after)
		if f.full && f.early {
			c.site.fill(t, f.room)
		}
		if f.agent != 0 {
			_ = node.cmd.Process.Signal(f.agent)
		}
		killed <- f.supervisor && c.site.killSupervisor(t)
	}()
	for range 1 + c.rng.IntN(3) {
		c.work(t, f.bulk)
	}
	if <-killed {
		c.kills++
	}
	if f.agent != 0 {
		c.next(t, f)
	}
	if f.full {
		time.Sleep(f.hold)
		c.site.free(t)
	}
	c.check(t)
	c.forget(t)
}

// next starts another agent, when one has got its signal.
func (c *campaign) next(t *testing.T, f *faults) {
	t.Helper()
	<-c.node.exited
	if f.agent == syscall.SIGTERM {
		require.Zero(t, c.node.cmd.ProcessState.ExitCode(), c.node.log)
	}
	c.node = nil
	if f.full && f.start && !f.early {
		c.site.fill(t, f.room)
	}
	if f.full && !f.start {
		time.Sleep(f.hold)
		c.site.free(t)
	}
	c.spoil(t, f)
	if f.upgrade {
		c.swapProgram(t)
	}
	if f.restless {
		c.killDuringStart(t)
	}
	if f.full && f.start {
		c.startOnFullDisk(t, f)
	} else {
		c.start(t)
	}
	c.checkOlder(t, f)
}

// startOnFullDisk starts an agent that can go on, or ends at once when a file has to be
// upgraded for which there is no room, and makes room after a while.
func (c *campaign) startOnFullDisk(t *testing.T, f *faults) {
	t.Helper()
	n := launchProcess(t, c.command())
	eventually(t, func() error {
		if m := answersLine.FindStringSubmatch(n.log.String()); m != nil || n.hasEnded() {
			return nil
		}
		return errors.New("the agent neither answers nor has it ended")
	})
	time.Sleep(f.hold)
	c.site.free(t)
	if n.hasEnded() {
		require.NotEmpty(t, f.older, n.log)
		require.Contains(t, n.log.String(), "no space left on device")
		c.start(t)
		return
	}
	n.address = n.log.await(t, readyLine, n.exited)[1]
	c.node = n
}

// killDuringStart ends an agent that has only begun to take up what there is.
func (c *campaign) killDuringStart(t *testing.T) {
	t.Helper()
	cmd := c.command()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	time.Sleep(time.Duration(c.rng.IntN(200)) * time.Millisecond)
	signal := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[c.rng.IntN(2)]
	if err := cmd.Process.Signal(signal); !errors.Is(err, os.ErrProcessDone) {
		require.NoError(t, err)
	}
	_ = cmd.Wait() // however far it came
}

// work asks for something. Whether it was done is looked up later.
func (c *campaign) work(t *testing.T, bulk int) {
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
	j := c.newJob(kind, c.rng.IntN(2) == 0)
	j.bulk = bulk
	c.register(t, j)
}
