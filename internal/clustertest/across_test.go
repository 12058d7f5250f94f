package clustertest

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-version"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// reachable says how a node's API is reached by other nodes.
const reachable = "bind_addr = \"0.0.0.0\"\ninsecure_api = true\n"

// startOrdinary starts a client of Nomad's own beside ours. It wants the tokens by which a disk is
// taken over.
func startOrdinary(t *testing.T, binary, name string, s *server) *process {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("an ordinary client of Nomad runs as root")
	}
	dir, port := t.TempDir(), freePorts(t, 3)
	config := filepath.Join(dir, "client.hcl")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
name      = %q
data_dir  = %q
bind_addr = "127.0.0.1"
advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
ports {
  http = %d
  rpc  = %d
  serf = %d
}
acl { enabled = true }
client {
  enabled = true
  servers = [%q]
  gc_disk_usage_threshold = 100
}
plugin "raw_exec" { config { enabled = true } }
`, name, filepath.Join(dir, "data"), port[0], port[1], port[2], s.rpc), 0o600))
	t.Cleanup(func() { unmount(dir) })
	return newProcess(t, binary, "agent", "-config", config)
}

// unmount takes away what a client of Nomad's leaves in its directory.
func unmount(dir string) {
	mounts, _ := os.ReadFile("/proc/self/mounts") // then the directory is not removed
	for line := range strings.Lines(string(mounts)) {
		if words := strings.Fields(line); len(words) > 1 && strings.HasPrefix(words[1], dir+"/") {
			_ = syscall.Unmount(words[1], 0)
		}
	}
}

// eligible says where allocations may be placed.
func (s *server) eligible(t *testing.T, id string, is bool) {
	t.Helper()
	_, err := s.client.Nodes().ToggleEligibility(id, is, nil)
	require.NoError(t, err)
}

// move has all allocations leave a node for another one.
func (s *server) move(t *testing.T, from, to string) {
	t.Helper()
	s.eligible(t, to, true)
	_, err := s.client.Nodes().UpdateDrain(from, &nomad.DrainSpec{Deadline: time.Minute}, false, nil)
	require.NoError(t, err)
}

// newest waits until the newest allocation of a job runs on a node.
func (s *server) newest(t *testing.T, job, node string) (a *nomad.Allocation) {
	t.Helper()
	eventually(t, "an allocation of "+job+" on node "+node, func() (bool, string) {
		list, _, err := s.client.Jobs().Allocations(job, true, nil)
		if err != nil || len(list) == 0 {
			return false, fmt.Sprint(err)
		}
		last := list[0]
		for _, one := range list {
			if one.CreateIndex > last.CreateIndex {
				last = one
			}
		}
		if last.NodeID != node || last.ClientStatus != "running" {
			return false, last.NodeID + " " + last.ClientStatus + events(last.TaskStates)
		}
		a, _, err = s.client.Allocations().Info(last.ID, nil)
		return err == nil, fmt.Sprint(err)
	})
	return a
}

func events(states map[string]*nomad.TaskState) (text string) {
	for _, state := range states {
		for _, e := range state.Events {
			text += "\n  " + e.Type + ": " + e.DisplayMessage + " " + e.Message
		}
	}
	return text
}

// has waits until a file of an allocation has a content, as anybody sees it who asks servers.
func (s *server) has(t *testing.T, a *nomad.Allocation, path, want string) {
	t.Helper()
	eventually(t, path+" with "+want, func() (bool, string) {
		r, err := s.client.AllocFS().Cat(a, path, nil)
		if err != nil {
			return false, err.Error()
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		return err == nil && string(b) == want, string(b)
	})
}

// TestADiskGoesToAnOrdinaryClientAndComesBack has a service leave our node for one of Nomad's, and come
// back, with all that is on its disk.
func TestADiskGoesToAnOrdinaryClientAndComesBack(t *testing.T) {
	for _, binary := range binaries(t) {
		t.Run(filepath.Base(binary), func(t *testing.T) { wandering(t, binary) })
	}
}

func wandering(t *testing.T, binary string) {
	if ip := outward(); ip == "" {
		t.Skip("this machine has no address but its own")
	}
	s := startServers(t, binary, 1, "acl { enabled = true }")[0]
	s.bootstrap(t)
	startOrdinary(t, binary, "theirs", s)
	startNode(t, "ours", reachable, s)
	ours, theirs := s.ready(t, "ours"), s.ready(t, "theirs")
	s.eligible(t, theirs, false)
	j := job("w", "service", `cat "$NOMAD_ALLOC_DIR/data/nodes" "$NOMAD_TASK_DIR/deep/er/nodes"
mkdir -p "$NOMAD_TASK_DIR/deep/er"; ln -sf deep "$NOMAD_TASK_DIR/link"
dd if=/dev/zero of="$NOMAD_ALLOC_DIR/data/big" bs=1M count=20 2>/dev/null
echo "$1" >> "$NOMAD_ALLOC_DIR/data/nodes"; echo "$1" >> "$NOMAD_TASK_DIR/deep/er/nodes"
exec sleep 10000`)
	task := j.TaskGroups[0].Tasks[0]
	task.Config["args"] = append(task.Config["args"].([]string), "sh", "${node.unique.name}")
	j.TaskGroups[0].EphemeralDisk = &nomad.EphemeralDisk{Migrate: ref(true), SizeMB: ref(150)}
	s.run(t, j)
	first := s.newest(t, "w", ours)
	s.has(t, first, "alloc/data/nodes", "ours\n")

	s.move(t, ours, theirs)
	there := s.newest(t, "w", theirs)
	s.has(t, there, "alloc/data/nodes", "ours\ntheirs\n")
	s.has(t, there, "t/local/link/er/nodes", "ours\ntheirs\n")

	s.move(t, theirs, ours)
	back := s.newest(t, "w", ours)
	s.has(t, back, "alloc/data/nodes", "ours\ntheirs\nours\n")
	s.has(t, back, "t/local/deep/er/nodes", "ours\ntheirs\nours\n")
	info, _, err := s.client.AllocFS().Stat(back, "alloc/data/big", nil)
	require.NoError(t, err)
	require.EqualValues(t, 20<<20, info.Size)
	require.NotContains(t, events(back.TaskStates), "is lost")
}

// outward is an address of the machine that is not for itself only; empty: it has none.
func outward() string {
	all, _ := net.InterfaceAddrs() // none is an answer
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	return ""
}

// TestTasksEndWithoutServersWhenTheirGroupSaysSo takes the servers away, and the agent too.
func TestTasksEndWithoutServersWhenTheirGroupSaysSo(t *testing.T) {
	for _, binary := range binaries(t) {
		t.Run(filepath.Base(binary), func(t *testing.T) {
			s := startServers(t, binary, 1, "")[0]
			agent := startNode(t, "ours", "", s)
			s.ready(t, "ours")
			pids := filepath.Join(t.TempDir(), "pids")
			for id, kept := range map[string]time.Duration{"short": 15 * time.Second, "long": time.Hour} {
				j := job(id, "service", "echo "+id+" $$ >> "+pids+"; exec sleep 10000")
				if versionOf(t, binary).LessThan(version.Must(version.NewVersion("1.8.0"))) {
					j.TaskGroups[0].StopAfterClientDisconnect = &kept //nolint:staticcheck // these servers know nothing else
				} else {
					j.TaskGroups[0].Disconnect = &nomad.DisconnectStrategy{StopOnClientAfter: &kept}
				}
				s.run(t, j)
				s.allocs(t, id, "running")
			}
			s.end(syscall.SIGKILL)
			agent.end(syscall.SIGKILL)
			agent.start(t)
			alive := func(id string) bool {
				b, err := os.ReadFile(pids)
				require.NoError(t, err)
				var pid int
				for line := range strings.Lines(string(b)) {
					_, _ = fmt.Sscanf(line, id+" %d", &pid) // of the other job
				}
				require.NotZero(t, pid)
				return syscall.Kill(pid, 0) == nil
			}
			eventually(t, "the end of the task", func() (bool, string) { return !alive("short"), "it runs" })
			require.True(t, alive("long"))
			s.start(t)
			s.awaitLeader(t)
			eventually(t, "what the servers are told", func() (bool, string) {
				list, _, err := s.client.Jobs().Allocations("short", true, nil)
				if err != nil || len(list) == 0 {
					return false, fmt.Sprint(err)
				}
				first := list[len(list)-1]
				return first.ClientStatus != "running" && strings.Contains(events(first.TaskStates), "no server was heard for 15s"), first.ClientStatus + events(first.TaskStates)
			})
		})
	}
}

// TestATaskIsToldThatServersHadMissedIt has an agent away until servers do not know what has become of its
// allocation: it runs on, and they take it back.
func TestATaskIsToldThatServersHadMissedIt(t *testing.T) {
	for _, binary := range binaries(t) {
		t.Run(filepath.Base(binary), func(t *testing.T) {
			s := startServers(t, binary, 1, "")[0]
			agent := startNode(t, "ours", "", s)
			s.ready(t, "ours")
			marks := filepath.Join(t.TempDir(), "marks")
			j := job("kept", "service", "echo started >> "+marks+"; exec sleep 10000")
			keep, no := time.Hour, false
			if versionOf(t, binary).LessThan(version.Must(version.NewVersion("1.8.0"))) {
				j.TaskGroups[0].MaxClientDisconnect = &keep //nolint:staticcheck // these servers know nothing else
			} else {
				j.TaskGroups[0].Disconnect = &nomad.DisconnectStrategy{LostAfter: &keep, Replace: &no}
			}
			s.run(t, j)
			id := s.allocs(t, "kept", "running")[0].ID
			agent.end(syscall.SIGKILL)
			status := func() (status string, reconnects int) {
				a, _, err := s.client.Allocations().Info(id, nil)
				if err != nil {
					return err.Error(), 0
				}
				return a.ClientStatus, strings.Count(events(a.TaskStates), "Reconnected: Client reconnected")
			}
			eventually(t, "that servers miss it", func() (bool, string) { is, _ := status(); return is == "unknown", is })
			agent.start(t)
			eventually(t, "its being back", func() (bool, string) {
				is, reconnects := status()
				return is == "running" && reconnects == 1, fmt.Sprint(is, reconnects)
			})
			started, err := os.ReadFile(marks)
			require.NoError(t, err)
			require.Equal(t, "started\n", string(started))
		})
	}
}
