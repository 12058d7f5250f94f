package clustertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// soonMissed has servers miss a node sooner.
const soonMissed = "server {\n  heartbeat_grace   = \"2s\"\n  min_heartbeat_ttl = \"2s\"\n}\n"

// What servers do with two allocations of which one was missed.
const keepOriginal, keepReplacement = "keep_original", "keep_replacement"

// TestWhatIsReplacedWhileItsNodeIsAway has an agent away while its tasks go on, so that servers have
// others started elsewhere, and wants one of the two to be left when it is back.
func TestWhatIsReplacedWhileItsNodeIsAway(t *testing.T) {
	for _, binary := range binaries(t) {
		t.Run(filepath.Base(binary), func(t *testing.T) {
			s := startServers(t, binary, 1, soonMissed)[0]
			if !s.atLeast(t, "1.8.0") {
				t.Skip("these servers know no disconnect block")
			}
			agents := map[string]*process{}
			for _, name := range []string{"one", "two"} {
				agent := startNode(t, name, "", s)
				agents[s.ready(t, name)] = agent
			}
			for _, keep := range []string{keepOriginal, keepReplacement} {
				t.Run(keep, func(t *testing.T) { reconciled(t, s, agents, keep) })
			}
		})
	}
}

func reconciled(t *testing.T, s *server, agents map[string]*process, keep string) {
	id := strings.ReplaceAll(keep, "_", "-")
	j := job(id, "service", "exec sleep 10000")
	j.TaskGroups[0].Disconnect = &nomad.DisconnectStrategy{LostAfter: ref(time.Hour), Replace: ref(true), Reconcile: ref(keep)}
	s.run(t, j)
	s.deployed(t, id, 0)
	first := s.allocs(t, id, "running")[0]
	agents[first.NodeID].end(syscall.SIGKILL)
	list := s.allocs(t, id, "unknown", "running")
	require.NotEqual(t, list[0].NodeID, list[1].NodeID)
	agents[first.NodeID].start(t)
	want := map[string]string{"original": "complete", "replacement": "running"}
	if keep == keepOriginal {
		want = map[string]string{"original": "running", "replacement": "complete"}
	}
	eventually(t, "one of both to be left: "+keep, func() (bool, string) {
		list, _, err := s.client.Jobs().Allocations(id, true, nil)
		state := fmt.Sprint(err)
		right := 0
		for _, a := range list {
			which := map[bool]string{true: "original", false: "replacement"}[a.ID == first.ID]
			state += fmt.Sprintf(" %s %s/%s;", which, a.DesiredStatus, a.ClientStatus)
			if a.ClientStatus == want[which] {
				right++
			}
		}
		return len(list) == 2 && right == 2, state
	})
	_, _, err := s.client.Jobs().Deregister(id, false, nil)
	require.NoError(t, err)
	s.allocs(t, id, "complete", "complete")
}

// TestWhatFailsIsRescheduled has an allocation fail, and servers place another one for it.
func TestWhatFailsIsRescheduled(t *testing.T) {
	for _, binary := range binaries(t) {
		t.Run(filepath.Base(binary), func(t *testing.T) {
			s := startServers(t, binary, 1, "")[0]
			startNode(t, "ours", "", s)
			s.ready(t, "ours")
			mark := filepath.Join(t.TempDir(), "mark")
			j := job("again", "batch", "test -e "+mark+" && exit 0; touch "+mark+"; exit 3")
			j.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{
				Attempts: ref(1), Interval: ref(time.Hour), Delay: ref(5 * time.Second), DelayFunction: ref("constant"), Unlimited: ref(false),
			}
			s.run(t, j)
			list := s.allocs(t, "again", "failed", "complete")
			second, _, err := s.client.Allocations().Info(list[0].ID, nil)
			require.NoError(t, err)
			require.Equal(t, list[1].ID, second.PreviousAllocation)
			require.Len(t, second.RescheduleTracker.Events, 1)
			_, err = os.Stat(mark)
			require.NoError(t, err)
		})
	}
}
