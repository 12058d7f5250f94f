package clustertest

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// TestServersForwardWhatTheyAsk asks servers that a node is not connected to, while the leader is
// killed, and then the server that it is connected to.
func TestServersForwardWhatTheyAsk(t *testing.T) {
	for _, binary := range binaries(t) {
		t.Run(versionOf(t, binary).String(), func(t *testing.T) { forwarded(t, binary) })
	}
}

func forwarded(t *testing.T, binary string) {
	servers := startServers(t, binary, 3, "")
	leader := leaderOf(t, servers)
	var followers []*server
	for _, s := range servers {
		if s != leader {
			followers = append(followers, s)
		}
	}
	near, far := followers[0], followers[1]
	agent := startNode(t, "ours", "", near) // it hears of the others, and stays where it is
	node := far.ready(t, "ours")
	j := job("talker", "service", `n=0; trap 'n=$((n+1)); echo hup $n' HUP; echo hello; while true; do sleep 0.1; done`)
	far.run(t, j)
	far.deployed(t, "talker", 0)
	alloc := far.allocs(t, "talker", "running")[0].ID
	require.Equal(t, near.rpc, agent.last(t, "connected to a server: server="))
	for _, s := range servers {
		s.reaches(t, alloc, node)
	}

	follow := far.follow(t, alloc)
	follow.until(t, far, "hup 1")
	leader.end(syscall.SIGKILL)
	follow.until(t, far, "hup 2")
	eventually(t, "another leader", func() (bool, string) {
		now, err := far.client.Status().Leader()
		return err == nil && now != "" && now != leader.rpc, fmt.Sprint(now, err)
	})
	follow.until(t, far, "hup 3")
	for _, s := range followers {
		s.reaches(t, alloc, node)
	}
	require.Equal(t, near.rpc, agent.last(t, "connected to a server: server="))

	leader.start(t)
	eventually(t, "all servers to be back", func() (bool, string) {
		peers, err := far.client.Status().Peers()
		if err != nil {
			return false, err.Error()
		}
		said, code := leader.cli(t, "", "", "server", "members")
		return len(peers) == 3 && code == 0 && strings.Count(said, "alive") == 3, said
	})
	near.end(syscall.SIGKILL)
	eventually(t, "another server to have the node", func() (bool, string) {
		return agent.last(t, "connected to a server: server=") != near.rpc, agent.log()
	})
	far.awaitLeader(t)
	far.ready(t, "ours")
	for _, s := range []*server{leader, far} {
		s.reaches(t, alloc, node)
	}
	again := far.follow(t, alloc)
	again.until(t, far, "hup 4")
	_, _, err := far.client.Jobs().Deregister("talker", false, nil)
	require.NoError(t, err)
	far.allocs(t, "talker", "complete")
}

func leaderOf(t *testing.T, servers []*server) (leader *server) {
	t.Helper()
	eventually(t, "a leader that all agree on", func() (bool, string) {
		address, err := servers[0].client.Status().Leader()
		for _, s := range servers {
			if s.rpc == address {
				leader = s
			}
		}
		return leader != nil, fmt.Sprint(address, err)
	})
	return leader
}

// reaches has a server ask the node for what goes in one answer, and in streams both ways.
func (s *server) reaches(t *testing.T, alloc, node string) {
	t.Helper()
	for _, c := range []struct{ line, stdin, want string }{
		{line: "alloc logs A", want: "hello\n"},
		{line: "alloc fs A alloc/logs/t.stdout.0", want: "hello\n"},
		{line: "alloc fs A alloc/logs", want: "t.stdout.0"},
		{line: "alloc exec -i -t=false A cat", stdin: "in and out", want: "in and out"},
		{line: "alloc status -stats A", want: "Memory Stats"},
		{line: "node status -stats N", want: "Host Resource Utilization"},
	} {
		// A server that has just lost another one has to hear first who has the node.
		eventually(t, c.line, func() (bool, string) {
			said, code := s.cli(t, "", c.stdin, words(c.line, alloc, node)...)
			return code == 0 && strings.Contains(said, c.want), said
		})
	}
}

// following is a log that is followed.
type following struct {
	alloc  *nomad.Allocation
	frames <-chan *nomad.StreamFrame
	errs   <-chan error
	said   strings.Builder
}

// follow follows a task's log until the test has ended.
func (s *server) follow(t *testing.T, alloc string) *following {
	t.Helper()
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	f := &following{alloc: &nomad.Allocation{ID: alloc}}
	f.frames, f.errs = s.client.AllocFS().Logs(f.alloc, true, "t", "stdout", "start", 0, end, nil)
	return f
}

// until has the task say more, until the log that is followed has a line.
func (f *following) until(t *testing.T, s *server, line string) {
	t.Helper()
	for deadline := time.After(patience); !strings.Contains(f.said.String(), line+"\n"); {
		_ = s.client.Allocations().Signal(f.alloc, nil, "t", "SIGHUP") // errors: there is no leader now
		select {
		case frame := <-f.frames:
			f.said.Write(frame.Data)
		case err := <-f.errs:
			require.NoError(t, err, "the log has ended before %q: %s", line, f.said.String())
		case <-time.After(100 * time.Millisecond):
		case <-deadline:
			require.FailNow(t, "the log does not go on", "%q: %s", line, f.said.String())
		}
	}
}
