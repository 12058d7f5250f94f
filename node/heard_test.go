package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// silentPlane can be made to answer no heartbeat, and to take no registration.
type silentPlane struct {
	ControlPlane
	mu   sync.Mutex
	away bool
}

const beating = 20 * time.Millisecond

func (p *silentPlane) set(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
}

func (p *silentPlane) answer() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return errors.New("connection refused")
	}
	return nil
}

func (p *silentPlane) Register(ctx context.Context, n *structs.Node) (time.Duration, error) {
	if err := p.answer(); err != nil {
		return 0, err
	}
	_, err := p.ControlPlane.Register(ctx, n)
	return beating, err
}

func (p *silentPlane) Heartbeat(context.Context, string) (time.Duration, error) {
	return beating, p.answer()
}

func stopAfterSilence(after time.Duration) func(*nomad.Job) {
	return func(j *nomad.Job) { j.TaskGroups[0].Disconnect = &nomad.DisconnectStrategy{StopOnClientAfter: &after} }
}

func stopAfterSilenceAsBefore(after time.Duration) func(*nomad.Job) {
	return func(j *nomad.Job) { j.TaskGroups[0].StopAfterClientDisconnect = &after } //nolint:staticcheck // servers before Nomad 1.8 know nothing else
}

// became waits until an allocation has become what it is to be on the node.
func (w *world) became(id string, status structs.ClientStatus) (s *structs.AllocationState) {
	w.await("status "+string(status), func() bool {
		r, err := w.node.runner(id)
		if err != nil {
			return false
		}
		s = r.AllocState()
		return s.ClientStatus == status
	})
	return s
}

func TestTasksAreStoppedWhenTheirGroupSaysForHowLongTheyRunWithoutServers(t *testing.T) {
	w := newWorld(t)
	plane := &silentPlane{ControlPlane: w.plane}
	w.plane, w.heard = plane, filepath.Join(t.TempDir(), "heard")
	w.start()
	for _, id := range []string{"now", "old", "later", "never"} {
		change := func(*nomad.Job) {}
		switch id {
		case "now":
			change = stopAfterSilence(time.Hour)
		case "old":
			change = stopAfterSilenceAsBefore(time.Hour)
		case "later":
			change = stopAfterSilence(3 * time.Hour)
		}
		w.run(id, "service", change)
	}
	ids := map[string]string{}
	for _, job := range []string{"now", "old", "later", "never"} {
		ids[job] = w.awaitStatus(job, structs.ClientRunning).ID
	}
	plane.set(true)
	almost := func() { // their hour is over soon
		w.node.heard.mu.Lock()
		w.node.heard.last = time.Now().Add(time.Second/20 - time.Hour)
		w.node.heard.mu.Unlock()
		w.node.heard.wake.Set()
	}
	almost()
	w.await("the last heartbeat", func() bool {
		if w.node.heard.since() < time.Minute { // one that was under way
			almost()
		}
		r, err := w.node.runner(ids["now"])
		return err == nil && r.AllocState().ClientStatus.Terminal()
	})
	for _, job := range []string{"now", "old"} {
		s := w.became(ids[job], structs.ClientComplete)
		told := ""
		for _, e := range s.TaskStates["t"].Events {
			if e.Type == structs.EventKilling {
				told = e.DisplayMessage
			}
		}
		require.Contains(t, told, "no server was heard for 1h0m0s (stop_on_client_after)")
	}
	for _, job := range []string{"later", "never"} {
		require.Equal(t, structs.ClientRunning, w.became(ids[job], structs.ClientRunning).ClientStatus)
	}
}

// The time goes on while there is no agent, and the servers may have placed the job elsewhere.
func TestAnAgentThatWasAwayForTooLongStopsWhatItFinds(t *testing.T) {
	w := newWorld(t)
	plane := &silentPlane{ControlPlane: w.plane}
	w.plane, w.heard = plane, filepath.Join(t.TempDir(), "heard")
	w.start()
	w.run("short", "service", stopAfterSilence(time.Hour))
	w.run("long", "service", stopAfterSilence(3*time.Hour))
	short, long := w.awaitStatus("short", structs.ClientRunning).ID, w.awaitStatus("long", structs.ClientRunning).ID
	w.end()
	ago := time.Now().Add(-2 * time.Hour)
	require.NoError(t, os.Chtimes(w.heard, ago, ago))
	w.launch() // whether servers answer or not
	w.became(short, structs.ClientComplete)
	w.became(long, structs.ClientRunning)
	require.Equal(t, 1, w.machine.started(short))
	require.Equal(t, 1, w.machine.started(long))

	// What has ended is not stopped again.
	w.end()
	require.NoError(t, os.Chtimes(w.heard, ago, ago))
	w.start()
	w.became(short, structs.ClientComplete)
}

// An embedded control plane wants no heartbeats: it is never away.
func TestWithoutServersNothingIsStopped(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("s", "service", stopAfterSilence(time.Millisecond))
	a := w.awaitStatus("s", structs.ClientRunning)
	w.node.heard.mu.Lock()
	w.node.heard.last = time.Now().Add(-time.Hour)
	w.node.heard.mu.Unlock()
	left, some := w.node.stopAllUnheard()
	require.True(t, some)
	require.Equal(t, time.Millisecond, left)
	require.Equal(t, structs.ClientRunning, w.became(a.ID, structs.ClientRunning).ClientStatus)
}

// Servers of many nodes want few heartbeats: a group that is more impatient than that does not end
// while they are well.
func TestNothingIsStoppedBeforeAHeartbeatIsMissed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "heard")
	h := newHeard(file, hclog.NewNullLogger())
	h.now(time.Hour)
	name, second := "g", time.Second
	a := &structs.Allocation{TaskGroup: name, Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{{Name: &name, Disconnect: &nomad.DisconnectStrategy{StopOnClientAfter: &second}}}}}
	require.Equal(t, time.Hour, (&Node{heard: h}).silence(a))
	require.Equal(t, time.Hour, (&Node{heard: newHeard(file, hclog.NewNullLogger())}).silence(a), "a later agent knows")
	h.now(time.Millisecond)
	require.Equal(t, time.Second, (&Node{heard: h}).silence(a))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Equal(t, time.Second, (&Node{heard: newHeard(file, hclog.NewNullLogger())}).silence(a), "what is in it is lost")
}
