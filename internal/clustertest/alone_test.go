package clustertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// TestFromOneMachineToAClusterAndBack follows docs/cluster.md with an agent that has a running job: to the
// servers, back from them, and to them again while it has one.
func TestFromOneMachineToAClusterAndBack(t *testing.T) {
	for _, binary := range binaries(t) {
		t.Run(filepath.Base(binary), func(t *testing.T) { thereAndBack(t, binary) })
	}
}

// mover is an agent whose configuration is changed between two runs.
type mover struct {
	*process
	joins string // the file that has it join
	runs  int    // how often it was ready
}

func thereAndBack(t *testing.T, binary string) {
	s := startServers(t, binary, 1, "")[0]
	m := &mover{process: nodeSpec{name: "ours"}.start(t)}
	m.end(os.Interrupt)
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(conf, "own.hcl"), []byte("datacenter = \"dc1\"\n"), 0o600)) // a directory without a file is refused
	m.joins = filepath.Join(conf, "cluster.hcl")
	m.args = append(m.args, "-config", conf)
	m.runs = strings.Count(m.log(), "agent is ready")
	pids := filepath.Join(t.TempDir(), "pids")

	own := m.ready(t)
	own.run(t, job("own", "service", "echo $$ >> "+pids+"; exec sleep 10000"))
	own.allocs(t, "own", "running")
	pid := pidsIn(t, pids)[0]

	m.change(t, s.rpc, "")
	m.refuses(t, "has allocations (1) that this agent has scheduled itself and that have not ended")
	require.NoError(t, syscall.Kill(pid, 0), "the job was stopped silently")

	require.NoError(t, os.Remove(m.joins))
	own = m.ready(t)
	own.allocs(t, "own", "running")
	require.Equal(t, []int{pid}, pidsIn(t, pids))
	said, code := cli(t, m.args[0], own.client.Address(), "", "", "job", "stop", "own")
	require.Zero(t, code, said)
	own.allocs(t, "own", "complete") // which the command does not wait for
	m.change(t, s.rpc, "")
	m.start(t)
	s.ready(t, "ours")
	said, code = s.cli(t, "", "", "node", "status")
	require.Zero(t, code, said)
	require.Regexp(t, `ours.*ready`, said)
	s.run(t, job("theirs", "service", "exec sleep 10000"))
	s.allocs(t, "theirs", "running")

	m.end(os.Interrupt)
	require.NoError(t, os.Remove(m.joins))
	m.refuses(t, `of a cluster's region "global"`)
	m.change(t, s.rpc, "")
	m.start(t)
	s.ready(t, "ours")
	_, _, err := s.client.Jobs().Deregister("theirs", true, nil)
	require.NoError(t, err)
	eventually(t, "the node to have nothing left", func() (bool, string) {
		said, _ := s.cli(t, "", "", "system", "gc")
		left, err := os.ReadDir(filepath.Join(m.data(), "alloc"))
		return err == nil && len(left) == 0, fmt.Sprint(said, len(left), err)
	})
	m.end(os.Interrupt)
	require.NoError(t, os.Remove(m.joins))
	m.runs = strings.Count(m.log(), "agent is ready")
	own = m.ready(t)
	own.run(t, job("own", "service", "echo $$ >> "+pids+"; exec sleep 10000"))
	eventually(t, "the job to run again", func() (bool, string) {
		all := pidsIn(t, pids)
		return len(all) == 2, fmt.Sprint(all)
	})
	pid = pidsIn(t, pids)[1]

	m.change(t, s.rpc, `standalone_jobs = "stop"`)
	m.start(t)
	eventually(t, "that it says so", func() (bool, string) {
		return strings.Contains(m.log(), "a job that the agent has scheduled itself is stopped, since it joins servers"), m.log()
	})
	eventually(t, "its end", func() (bool, string) { return syscall.Kill(pid, 0) != nil, fmt.Sprint(pid) })
	s.run(t, job("after", "batch", "exit 0"))
	s.allocs(t, "after", "complete")
}

// ready starts the agent, and returns it as a server of its own.
func (m *mover) ready(t *testing.T) *server {
	t.Helper()
	m.start(t)
	m.runs++
	eventually(t, "the agent", func() (bool, string) { return strings.Count(m.log(), "agent is ready") == m.runs, m.log() })
	address := m.last(t, "the API answers: http_addr=")
	client, err := nomad.NewClient(&nomad.Config{Address: "http://" + address})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	own := &server{process: m.process, client: client}
	eventually(t, "its driver", func() (bool, string) {
		nodes, _, err := client.Nodes().List(nil)
		if err != nil || len(nodes) != 1 {
			return false, fmt.Sprint(err)
		}
		d := nodes[0].Drivers["raw_exec"]
		return d != nil && d.Healthy, fmt.Sprint(d)
	})
	return own
}

// change ends the agent, and has it join a server the next time.
func (m *mover) change(t *testing.T, rpc, more string) {
	t.Helper()
	m.end(os.Interrupt)
	require.NoError(t, os.WriteFile(m.joins, fmt.Appendf(nil, "client {\n  servers = [%q]\n  %s\n}\n", rpc, more), 0o600))
}

// refuses starts the agent, which says why it does not go on.
func (m *mover) refuses(t *testing.T, why string) {
	t.Helper()
	before := strings.Count(m.log(), why)
	m.start(t)
	require.Error(t, m.cmd.Wait())
	m.cmd = nil
	require.Equal(t, before+1, strings.Count(m.log(), why), m.log())
}
